"""The gateway: one public address in front of the engines, and who answers what."""
