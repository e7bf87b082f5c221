"""What is wrong on a host, how bad it is, and which command mends it."""

from ttmem.doctor.document import document
from ttmem.doctor.examination import examine
from ttmem.doctor.finding import Finding, Level, worst

__all__ = ["Finding", "Level", "document", "examine", "worst"]
