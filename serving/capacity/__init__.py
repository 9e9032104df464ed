"""What a model needs in memory, how many users a GPU holds, and what a request costs: arithmetic, without torch."""
