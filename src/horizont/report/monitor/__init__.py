"""The monitoring page: a running study, or a finished record, as one page that renews itself."""

from horizont.report.monitor.page import live_page
from horizont.report.monitor.view import LiveView, watch

__all__ = ["LiveView", "live_page", "watch"]
