"""Settings that come out of a file."""

from onlinels.saving.settings import settings_hold, settings_of

__all__ = ["settings_hold", "settings_of"]
