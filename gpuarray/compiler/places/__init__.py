"""Where the elements that an equation needs lie: index maps, and the reach of each primitive."""
