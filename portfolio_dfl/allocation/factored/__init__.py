"""The portfolio problem under a factor risk model: every asset is eliminated first, which is linear in their number."""
