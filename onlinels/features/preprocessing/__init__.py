"""What is done to images before the filters: downsample, scale, grey channel, whiten."""
