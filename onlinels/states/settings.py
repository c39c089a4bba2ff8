"""Transitional names."""

from onlinels.saving.kinds import settings_hold, settings_of

__all__ = ["settings_hold", "settings_of"]
