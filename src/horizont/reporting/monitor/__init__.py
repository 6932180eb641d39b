"""The monitoring page: a running study, or a finished record, as one page that renews itself."""

from horizont.reporting.monitor.page import live_page
from horizont.reporting.monitor.view import LiveView, watch

__all__ = ["LiveView", "live_page", "watch"]
