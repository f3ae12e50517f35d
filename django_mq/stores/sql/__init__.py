"""What the SQL stores share: the same named statements run in the same order.

One file per duty; ``SQLStore`` only puts them together. The folders of the databases
hold the SQL and what little differs.
"""

from django_mq.stores.sql.appending import Appending
from django_mq.stores.sql.consuming import Consuming
from django_mq.stores.sql.looking import Looking
from django_mq.stores.sql.upkeep import Upkeep
from django_mq.stores.sql.volatile import Volatile


class SQLStore(Appending, Consuming, Upkeep, Looking, Volatile):
    """A store over a database; a subclass names its statements and its clock."""
