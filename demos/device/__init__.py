"""A fan with three states, learnt by two devices: run the folder, `python demos/device`."""
