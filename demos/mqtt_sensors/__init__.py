"""Learn from sensors behind an MQTT broker: run the folder, `python demos/mqtt_sensors`."""
