"""Settings of JAX that have no effect here, in groups that say why, with JAX 0.10.2's defaults.

Floor 0. Programs written for JAX may set them: `config.update` warns that they have no effect, and
reading one returns what was set. docs/differences.md has the same table, and a test compares them.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Idle(NamedTuple):
    """Settings without effect for one reason."""

    why: str
    defaults: dict[str, Any]


IDLE = (
    Idle(
        "it tunes XLA, its programs, or how programs are lowered to it",
        {
            "bcoo_cusparse_lowering": False,
            "captured_constants_report_frames": 0,
            "captured_constants_warn_bytes": 2_000_000_000,
            "compiler_detailed_logging_min_ops": 10,
            "compiler_enable_remat_pass": True,
            "cpu_enable_async_dispatch": True,
            "disable_most_optimizations": False,
            "dump_ir_modes": "stablehlo",
            "dump_ir_to": "",
            "eager_constant_folding": False,
            "embedded_constants_max_bytes": 32,
            "enable_pgle": False,
            "exec_time_optimization_effort": 0.0,
            "experimental_unsafe_xla_runtime_errors": False,
            "hlo_source_file_canonicalization_regex": None,
            "include_debug_info_in_dumps": True,
            "include_full_tracebacks_in_locations": True,
            "jax2tf_associative_scan_reductions": False,
            "jax2tf_default_native_serialization": True,
            "memory_fitting_effort": 0.0,
            "memory_fitting_level": "O2",
            "mosaic_allow_hlo": False,
            "optimization_level": "UNKNOWN",
            "pallas_use_mosaic_gpu": True,
            "pallas_verbose_errors": False,
            "pgle_aggregation_percentile": 90,
            "pgle_profiling_runs": 3,
            "ragged_dot_use_gpu_pallas_triton_lowering": False,
            "ragged_dot_use_ragged_dot_instruction": True,
            "send_traceback_to_runtime": "off",
            "source_url_schema": None,
            "threefry_gpu_kernel_lowering": False,
            "traceback_in_locations_limit": 100,
            "use_emit_pipeline_primitive": False,
            "use_magma": "auto",
            "use_shardy_partitioner": True,
            "use_simplified_jaxpr_constants": False,
            "xla_profile_version": 0,
        },
    ),
    Idle(
        "it chooses between two implementations inside JAX",
        {
            "check_vma": False,
            "custom_vjp3": False,
            "disable_bwd_checks": False,
            "disable_vmap_shmap_error": False,
            "mutable_array_checks": True,
            "refs_to_pins": False,
            "remat3": False,
            "scan3": False,
            "use_direct_linearize": True,
        },
    ),
    Idle(
        "the cache on disk holds kernels, whose text is their key",
        {
            "compilation_cache_check_contents": False,
            "compilation_cache_expect_pgle": False,
            "compilation_cache_include_metadata_in_key": False,
            "compilation_cache_max_size": -1,
            "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
            "persistent_cache_min_compile_time_secs": 1.0,
            "persistent_cache_min_entry_size_bytes": 0,
            "raise_persistent_cache_errors": False,
            "remove_custom_partitioning_ptr_from_cache_key": False,
        },
    ),
    Idle(
        "exported programs have a format of their own, with one version",
        {
            "export_calling_convention_version": 10,
            "export_ignore_forward_compatibility": False,
            "serialization_version": 0,
        },
    ),
    Idle(
        "it is for services and transports between hosts that are not here",
        {
            "check_proxy_envs": True,
            "cpu_collectives_implementation": "gloo",
            "cpu_get_global_topology_timeout_minutes": 5,
            "cpu_get_local_topology_timeout_minutes": 2,
            "cross_host_transfer_socket_address": "",
            "cross_host_transfer_timeout_seconds": None,
            "cross_host_transfer_transfer_size": None,
            "cross_host_transport_addresses": "",
            "distributed_debug": False,
            "enable_preemption_service": True,
            "enable_recoverability": False,
            "force_dcn_cross_host_transfers": False,
            "share_binary_between_hosts": False,
            "share_binary_between_hosts_timeout_ms": 1_200_000,
            "sort_devices_by_process_index": True,
        },
    ),
    Idle(
        "it is for devices and clients that are not here",
        {
            "backend_target": "",
            "debug_leaked_clients_on_clear_backends": False,
            "mock_gpu_topology": "",
            "mock_num_gpu_processes": 0,
            "oneapi_visible_devices": "all",
            "pjrt_client_create_options": None,
            "rocm_visible_devices": "all",
            "xla_backend": "",
        },
    ),
    Idle(
        "what it asks for is so already, or is read by functions that are not public in JAX",
        {
            "error_checking_behavior_divide": "ignore",
            "error_checking_behavior_nan": "ignore",
            "error_checking_behavior_oob": "ignore",
            "pallas_poison_buffers": False,
            "tracer_error_num_traceback_frames": 5,
        },
    ),
)

#: All of them, with the values in which JAX starts.
XLA_SETTINGS: dict[str, Any] = {k: v for group in IDLE for k, v in group.defaults.items()}
