"""Which equations become one kernel: groups, what joins them, and what ends one."""
