"""Settings of JAX that tune XLA, with the values in which JAX 0.10.2 starts.

Floor 0. Programs written for JAX may set them: `config.update` warns that it has no effect.
"""

from __future__ import annotations

from typing import Any

XLA_SETTINGS: dict[str, Any] = {
    "bcoo_cusparse_lowering": False,
    "captured_constants_report_frames": 0,
    "captured_constants_warn_bytes": 2_000_000_000,
    "compilation_cache_check_contents": False,
    "compilation_cache_expect_pgle": False,
    "compilation_cache_include_metadata_in_key": False,
    "compilation_cache_max_size": -1,
    "compiler_detailed_logging_min_ops": 10,
    "compiler_enable_remat_pass": True,
    "cpu_collectives_implementation": "gloo",
    "cpu_enable_async_dispatch": True,
    "cpu_get_global_topology_timeout_minutes": 5,
    "cpu_get_local_topology_timeout_minutes": 2,
    "disable_most_optimizations": False,
    "dump_ir_modes": "stablehlo",
    "dump_ir_to": "",
    "embedded_constants_max_bytes": 32,
    "enable_pgle": False,
    "exec_time_optimization_effort": 0.0,
    "experimental_unsafe_xla_runtime_errors": False,
    "hlo_source_file_canonicalization_regex": None,
    "include_debug_info_in_dumps": True,
    "include_full_tracebacks_in_locations": True,
    "memory_fitting_effort": 0.0,
    "memory_fitting_level": "O2",
    "optimization_level": "UNKNOWN",
    "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "persistent_cache_min_compile_time_secs": 1.0,
    "persistent_cache_min_entry_size_bytes": 0,
    "pgle_aggregation_percentile": 90,
    "pgle_profiling_runs": 3,
    "ragged_dot_use_ragged_dot_instruction": True,
    "raise_persistent_cache_errors": False,
    "share_binary_between_hosts": False,
    "share_binary_between_hosts_timeout_ms": 1_200_000,
    "threefry_gpu_kernel_lowering": False,
    "traceback_in_locations_limit": 100,
    "use_direct_linearize": True,
    "use_magma": "auto",
    "use_shardy_partitioner": True,
    "use_simplified_jaxpr_constants": False,
    "xla_profile_version": 0,
}
