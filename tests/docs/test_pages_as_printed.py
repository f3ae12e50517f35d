"""The blocks of the README and the how-to pages work as printed, in the order of the page, in an empty project."""

from __future__ import annotations

import ast
import re
import shutil
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import django
import pytest
from cryptography.fernet import Fernet
from django.db.utils import ConnectionHandler

from tests.conftest import skip_or_fail, url_or_skip
from tests.docs.pages import DOCS, README, blocks
from tests.docs.reader import Reader
from tests.services.pgbouncer import PORT, PgBouncer
from tests.services.server import UnavailableError
from tests.settings.databases import from_url
from tests.support.waiting import read_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.pages import Block
    from tests.services.environment import Services

    #: By database alias: what Django's settings call the address of a server.
    Address = dict[str, dict[str, Any]]

#: What the tutorial writes before it has queues; the how-to pages begin with such a project.
SETTINGS = """
INSTALLED_APPS += ["django_mq", "orders"]
DATABASES["default"]["OPTIONS"] = {"init_command": "PRAGMA journal_mode=WAL;", "transaction_mode": "IMMEDIATE"}
CELERY_BROKER_URL = "django-mq://"
DJANGO_MQ = {}
"""
CELERY = """
import os
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
"""
#: Commands that prepare a reader's machine; the tests' environment has their results.
PREPARED = ("python3 -m venv", "pip install", "apt-get")
#: A command that is typed elsewhere: in this repository.
ELSEWHERE = "python -m tests.services"
#: Commands that go on until they are stopped, and what they print when they work.
ENDLESS = {
    "celery -A shop worker": "[queues]",
    "python manage.py mq_worker": "consumes",
    "python manage.py mq_receive": "Receiving",
    "python manage.py mq_maintenance --loop": "Doing the maintenance",
    "python manage.py mq_top": "QUEUE",
    "python manage.py runserver": "Quit the server",
}
ENDING = ("--until-empty", "--once")


@dataclass(frozen=True)
class Page:
    """A page, what its reader's site has before, and what the blocks print."""

    name: str
    #: Added to the settings before the first block.
    settings: str = ""
    #: Files that are there before the first block.
    files: dict[str, str] = field(default_factory=dict)
    #: Run in the shell before the first block.
    before: str = ""
    #: A command that runs as long as the page is read.
    beside: str = ""
    #: The server whose address replaces the one that the page prints.
    server: str = ""
    #: Typed after the last block.
    after: str = ""
    prints: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return README if self.name == README.name else DOCS / "how-to" / self.name


#: The id that the pages print.
ID = "01a201cd-5077-70e7-a724-ae5470e6df0b"
FRESH = 'INSTALLED_APPS.remove("django_mq")'
RECEIPTS = """
from django_mq.api import consumer

@consumer("receipts")
def send_receipt(message):
    print("receipt for order", message.body["order"])
"""
#: What the page prints later, for the worker that runs beside it.
PRICES = """
import sys
from django_mq.api import Reject, consumer

if "mq_worker" in sys.argv:
    @consumer("prices")
    def reply(message):
        if message.body["article"] == 7:
            return 12.5
        raise Reject("no such article")
"""
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql"}
ON_POSTGRESQL = f"""
DATABASES["default"] = {POSTGRESQL!r}
DJANGO_MQ = {{"QUEUES": {{"orders": {{}}}}}}
"""
#: What the page prints, for the worker that runs beside it.
BEAT = """
from celery.schedules import crontab

MORNING = crontab("0", "3", day_of_week="mon-fri")
CELERY_BEAT_SCHEDULE = {"reports": {"task": "orders.tasks.make_reports", "schedule": MORNING}}
CELERY_TIMEZONE = "Europe/Berlin"
"""
PAGES = (
    Page(
        "README.md",
        settings=FRESH,
        after="python manage.py mq_publish receipts '{\"order\": 7}'\npython manage.py mq_worker --until-empty",
        prints=("receipt for order 7 attempt 1",),
    ),
    Page("celery/switch.md", settings=FRESH, after="celery -A shop worker"),
    Page(
        "celery/keep-results.md",
        before="from tests.integrations.celery.test_celery_results import fill; fill()",
        prints=("PENDING", "3", "Call get() after the transaction.", "1 would import", "1 imported"),
    ),
    Page("celery/replace-celery-once.md", after="python manage.py mq_queues"),
    Page(
        "celery/replace-celery-beat.md",
        settings=BEAT,
        before="from tests.periodic.test_beat import fill; fill(one_off=False)",
        beside="celery -A shop worker",
        after="until python manage.py mq_periodic | grep 'on Monday through Friday'; do true; done",
        prints=("Would import: daily, off.", "Imported: daily, off.", "At 03:00 on Monday through Friday"),
    ),
    Page("celery/migrate.md", before="from shop.celery import app; app.send_task('orders.tasks.add')"),
    Page(
        "databases/mariadb.md",
        server="mariadb",
        after="python manage.py migrate\npython manage.py check --database default",
    ),
    Page(
        "databases/pgbouncer.md", server="pgbouncer", after="python manage.py migrate\npython manage.py mq_doctor"
    ),
    Page("databases/big-tables.md", settings=ON_POSTGRESQL, server="postgresql"),
    Page("databases/redis.md", server="redis", after="python manage.py mq_doctor", prints=("Redis",)),
    Page("databases/second-database.md", server="postgresql"),
    Page(
        "messages/django-tasks.md",
        after="python manage.py mq_worker --until-empty",
        prints=("welcome, ann@example.org", "receipt for order 17"),
    ),
    Page(
        "messages/handle-messages.md",
        settings='DJANGO_MQ = {"QUEUES": {"receipts": {}}}',
        before="from django_mq.api import publish; publish('receipts', {'order': 7})",
        prints=("7",),
    ),
    Page(
        "messages/async-handlers.md",
        settings='DJANGO_MQ = {"QUEUES": {"webhooks": {}}}',
        before="from django_mq.api import publish; publish('webhooks', {'user': 1})",
        after="python manage.py mq_worker --until-empty\npython manage.py mq_queues",
        prints=("replies",),
    ),
    Page(
        "messages/typed-messages.md",
        after="python manage.py mq_worker --until-empty",
        prints=(
            "receipt over 12.50 for 1 lines, attempt 1",
            "receipt over 3 for 2 lines",
            "receipt over 1250 cents",
        ),
    ),
    Page(
        "messages/many-at-once.md",
        after="python manage.py mq_publish prices '{\"price\": -1}'\npython manage.py mq_worker --until-empty",
        prints=("2 clicks on /tea", "1 visitors", "a negative price"),
    ),
    Page("messages/keep-results.md", prints=("the price is 12.5",)),
    Page(
        "messages/follow-progress.md",
        prints=("100%, page 30 of 30, attempt 1", '<progress value="1.0"></progress> page 30 of 30'),
    ),
    Page(
        "messages/call-and-wait.md",
        settings='DJANGO_MQ = {"QUEUES": {"prices": {}}}',
        files={"orders/consumers.py": PRICES},
        beside="python manage.py mq_worker",
        prints=("the price is 12.5", "no price: Reject: no such article"),
    ),
    Page(
        "messages/durable-handlers.md",
        prints=("charge order 7", "send R-7", "ask user 7 to pay", "visited"),
    ),
    Page("messages/workflows.md", after="python manage.py mq_doctor", prints=("analysed 3 pages: 63 letters",)),
    Page(
        "messages/batches.md",
        after="python manage.py mq_worker --until-empty",
        prints=("2 members", "10 removed", "99 rows, 1 failed"),
    ),
    Page("messages/unique-messages.md", after="python manage.py mq_queues", prints=("the report of customer 17",)),
    Page(
        "messages/several-handlers.md",
        settings='DJANGO_MQ = {"QUEUES": {"orders": {}}}',
        before=(
            "from django_mq.api import publish\n"
            "publish('orders', {'order': 1}, headers={'region': 'eu', 'size': 3})\n"
            "publish('orders', {'order': 2}, headers={'region': 'eu', 'size': 30})\n"
            "publish('orders', {'order': 3}, headers={'region': 'us', 'size': 3})\n"
            "publish('orders', {'order': 4}, headers={'region': 'jp', 'size': 3})"
        ),
        after="python manage.py mq_worker --until-empty",
        # The threads may print between each other's words.
        prints=("a small order from Europe:", "a large order from Europe:", "any other order:"),
    ),
    Page("messages/carry-context.md", prints=("de acme 6f2c fruit",)),
    Page(
        "messages/encrypt-bodies.md",
        settings=f"import os; os.environ['CARDS_KEY'] = {Fernet.generate_key().decode()!r}",
        prints=("encrypted", "charge 4111 1111"),
    ),
    Page(
        "messages/exactly-once.md",
        after="python manage.py mq_publish payments '[5]'\npython manage.py mq_worker --until-empty",
        prints=("written to the database of the queues: [5]",),
    ),
    Page(
        "messages/credit.md",
        after="python manage.py mq_worker --until-empty",
        prints=("(credit 100, 20000000 bytes)",),
    ),
    Page("messages/receive-from-another-system.md", server="rabbitmq", prints=("order 7 of acme", "invoice")),
    Page("messages/publish-messages.md", after="python manage.py mq_queues"),
    Page(
        "messages/retry-and-dead-letters.md",
        settings='DJANGO_MQ = {"QUEUES": {"receipts": {}}}',
        before="from django_mq.api import publish; publish('receipts', 1)",
        prints=("charged 42", "could not charge 43 message "),
    ),
    Page(
        "messages/schedule-and-prioritise.md",
        after="python manage.py mq_queues",
    ),
    Page(
        "messages/test-your-code.md",
        settings='DJANGO_MQ = {"QUEUES": {"receipts": {"max_attempts": 3}}}',
        files={"orders/consumers.py": RECEIPTS},
        prints=("receipt for order 7", "1 passed"),
    ),
    Page(
        "operations/empty-or-move.md",
        settings='DJANGO_MQ = {"QUEUES": {"orders": {}, "reports": {}, "reports.old": {}}}',
        before=f"from django_mq.api import *; publish('reports', 1); publish('orders', 1, message_id='{ID}')",
    ),
    Page(
        "operations/find-what-is-wrong.md",
        settings='DJANGO_MQ = {"QUEUES": {"receipts": {}}}',
        before=f"from django_mq.api import *; pause('receipts'); publish('receipts', 1, message_id='{ID}')",
        files={"orders/consumers.py": RECEIPTS},
    ),
    Page(
        "operations/find-a-message.md",
        after="python manage.py shell -c 'from django_mq.models import *; print(*SearchKey.objects.all())'",
        prints=("order: 4711 tenant: acme",),
    ),
    Page(
        "bridges/forward-to-rabbitmq.md",
        settings="import os; os.environ['RABBITMQ_URL'] = 'memory://'",
        after="python manage.py mq_queues",
        prints=("forwards shipments of database 'default' through the bridge 'rabbit' to memory://",),
    ),
    Page(
        "bridges/celery-on-rabbitmq.md",
        settings="import os; os.environ['RABBITMQ_URL'] = 'memory://'",
        after="python manage.py mq_queues",
        prints=("forwards heavy of database 'default' through the bridge 'rabbit' to memory://",),
    ),
    Page("operations/maintenance.md"),
    Page(
        "operations/monitor.md",
        settings=ON_POSTGRESQL,
        files={"orders/consumers.py": RECEIPTS.replace("receipts", "orders")},
        beside="python manage.py mq_worker",
        server="postgresql",
        after="python manage.py check",
    ),
    Page("../reference/middleware.md", after="python manage.py check"),
    Page("../reference/api.md", after="python manage.py mq_queues"),
    Page("operations/pause-a-queue.md"),
    Page(
        "operations/publish-by-hand.md",
        settings='DJANGO_MQ = {"QUEUES": {"orders": {}}}',
        files={"orders.jsonl": '{"order": 1}\n{"order": 2}\n'},
        before=f"from django_mq.api import publish; publish('orders', [[7011], {{}}, None], message_id='{ID}')",
    ),
    Page("operations/redrive-dead-letters.md"),
    Page(
        "operations/run-workers.md",
        settings=ON_POSTGRESQL + 'DJANGO_MQ = {"QUEUES": {"receipts": {}, "reports": {}}}',
        files={"orders/consumers.py": RECEIPTS + RECEIPTS.replace("receipts", "reports")},
        beside="python manage.py mq_worker --name native@web-2:4711",
        server="postgresql",
    ),
    Page(
        "operations/stop-what-runs.md",
        settings='DJANGO_MQ = {"QUEUES": {"orders": {}}}',
        before=f"from django_mq.api import *; publish('orders', 1, message_id='{ID}'); publish('orders', 2)",
        after="python manage.py mq_worker --until-empty",
        prints=("1 message removed.", "export 999"),
    ),
    Page(
        "operations/tenants.md",
        after='python manage.py mq_publish emails \'{"tenant": "acme"}\'\n'
        "python manage.py mq_maintenance\npython manage.py mq_tenants --by waiting",
        prints=("acme",),
    ),
    Page("operations/upgrade.md"),
    Page(
        "operations/what-operators-did.md",
        settings='DJANGO_MQ = {"QUEUES": {"orders": {}, "orders.old": {}}}',
        before="from django_mq.api import publish; publish('orders', 1); publish('orders', 2)",
        after="python manage.py mq_acts",
        prints=("2 messages moved from 'orders' to 'orders.old'.", "2 messages put back.", "stock take"),
    ),
    Page("queues/groups-and-order.md", after="python manage.py mq_worker --until-empty"),
    Page("queues/fairness.md", after="python manage.py mq_queues", prints=("reports",)),
    Page(
        "queues/limit-a-slow-api.md",
        settings='DJANGO_MQ = {"QUEUES": {"geocoding": {}}}',
        # The threads may print between each other's words.
        prints=("geocoded", "square", "street 4"),
    ),
    Page("queues/limits.md", after="python manage.py check"),
    Page("queues/once-and-latest.md", after="python manage.py mq_queues"),
)


@pytest.fixture(scope="module")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project ``shop`` with an app ``orders``, migrated."""
    reader = Reader(tmp_path_factory.mktemp("empty"))
    reader.type("django-admin startproject shop . && python manage.py startapp orders")
    reader.write("shop/settings.py", SETTINGS)
    reader.write("shop/celery.py", CELERY)
    reader.write("shop/__init__.py", "from .celery import app as celery_app")
    reader.type("python manage.py migrate")
    return reader.folder


@pytest.fixture
def reader(empty_project: Path, tmp_path: Path) -> Reader:
    """A reader with a copy of the project."""
    return Reader(shutil.copytree(empty_project, tmp_path / "site"))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[] if page.path == README else [pytest.mark.once]) for page in PAGES],
)
def test_the_blocks_of_a_page_work_as_printed(
    page: Page, reader: Reader, services: Services, free_port: int, django_db_blocker: Any
) -> None:
    with ExitStack() as stack, django_db_blocker.unblock():
        address = stack.enter_context(address_of(page.server, services))
        prepare(reader, page, address)
        reader.printed = ""
        if page.beside:
            beside = stack.enter_context(reader.terminal(page.beside))
            read_until(beside, next(text for command, text in ENDLESS.items() if page.beside.startswith(command)))
        for block in blocks(page.path, "python", "shell", "sql"):
            if block.language == "python":
                put(reader, block, address)
            elif block.language == "sql":
                ask(address["default"], block.text)
            else:
                type_all(reader, block.text.replace("8001", str(free_port)))
        type_all(reader, page.after)

    for text in page.prints:
        assert text in reader.printed, reader.printed


def prepare(reader: Reader, page: Page, address: Address) -> None:
    """Give the reader the site that the page takes for granted."""
    for file, text in page.files.items():
        (reader.folder / file).write_text(text)
    configure(reader, page.settings, address)
    if "DJANGO_MQ" in page.settings:
        reader.type("python manage.py migrate && python manage.py mq_queue sync")
    if page.before:
        run(reader, page.before)


def configure(reader: Reader, text: str, address: Address) -> None:
    """Write settings as printed, then the address of the server of the tests."""
    reader.write("shop/settings.py", text)
    for alias in re.findall(r'^DATABASES\["(\w+)"\] = ', text, re.MULTILINE):
        if alias in address:
            reader.write("shop/settings.py", f'DATABASES["{alias}"].update({address[alias]!r})')
    if "rabbitmq" in address:
        reader.write("shop/settings.py", f'import os; os.environ["PARTNER_URL"] = {address["rabbitmq"]["URL"]!r}')
    if "REDIS_URL" in text and "redis" in address:
        reader.write("shop/settings.py", f'DJANGO_MQ["REDIS_URL"] = {address["redis"]["URL"]!r}')


def put(reader: Reader, block: Block, address: Address) -> None:
    """Put Python where the page says, or where such code usually is; type the rest into the shell."""
    text = block.text if django.VERSION >= (6, 0) else block.text.replace("django.tasks", "django_tasks")
    file = printed_file(block) or usual_file(text)
    if file is None:
        run(reader, text)
    elif file == "shop/settings.py":
        configure(reader, text, address)
    else:
        reader.write(file, text)
        if file.endswith("tests.py"):
            reader.type("python manage.py test")


def printed_file(block: Block) -> str | None:
    """Return the file that the block names in its first line, or else the text before it."""
    named = re.findall(r"^# (\S+\.py)$", block.text.splitlines()[0])
    name = named[0] if named else block.file
    return {
        "settings.py": "shop/settings.py",
        "urls.py": "shop/urls.py",
        "consumers.py": "orders/consumers.py",
    }.get(name or "", name)


@contextmanager
def address_of(server: str, services: Services) -> Iterator[Address]:
    """Yield where the servers of a page are, by database alias."""
    if server == "rabbitmq":
        yield {"rabbitmq": {"URL": url_or_skip(services, "rabbitmq")}}
    elif server == "redis":
        yield {"redis": {"URL": url_or_skip(services, "redis")}}
    elif server == "mariadb":
        yield {"default": new_database(url_or_skip(services, server), "`{}`")}
    elif server:
        url = url_or_skip(services, "postgresql")
        direct = new_database(url, '"{}"')
        if server == "postgresql":
            yield {**dict.fromkeys(("default", "queues"), direct), "archive": new_database(url, '"{}"')}
            return
        try:
            with PgBouncer(direct) as pooler:
                pooled = direct | {"HOST": str(pooler.directory), "PORT": PORT}
                yield {"default": pooled, "direct": direct}
        except UnavailableError as missing:
            skip_or_fail(missing)
    else:
        yield {}


def new_database(url: str, quoted: str) -> dict[str, Any]:
    """Create a database on the server, and return its address as Django's settings have it."""
    settings = from_url(url)
    address = {key: settings[key] for key in ("USER", "PASSWORD", "HOST", "PORT")}
    name = f"page_{uuid4().hex}"
    connection = ConnectionHandler({"default": settings})["default"]
    connection.set_autocommit(True)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted.format(name)}")
    return address | {"NAME": name}


def usual_file(text: str) -> str | None:
    """Return the file of a project that has such code."""
    last = ast.parse(text).body[-1]
    if "@consumer" in text:
        return "orders/consumers.py"
    if "@shared_task" in text or "@task" in text:
        return "orders/tasks.py"
    if "TestCase" in text:
        return "orders/tests.py"
    if "urlpatterns" in text:
        return "shop/urls.py"
    is_setting = re.search(r"^[A-Z_]+(\[.*\])* \+?= ", text, re.MULTILINE)
    return "shop/settings.py" if is_setting and isinstance(last, ast.Assign | ast.AugAssign) else None


def ask(address: dict[str, Any], text: str) -> None:
    """Send statements of SQL to PostgreSQL, each by itself."""
    connection = ConnectionHandler({"default": POSTGRESQL | address})["default"]
    with closing(connection), connection.cursor() as cursor:
        for statement in text.strip().split(";\n"):
            cursor.execute(statement)


def run(reader: Reader, text: str) -> None:
    """Type Python into the shell of the project; a line that ``# raises`` an exception has to raise it."""
    (reader.folder / "typed.py").write_text(text)
    line = """python manage.py shell -c "exec(open('typed.py').read())" """
    raised = text.rpartition("# raises ")[2].strip() if "# raises " in text else ""
    if "follow=True" in text:
        reader.watch(line, ID)
    else:
        reader.type(line, code=1 if raised else 0)
    assert raised in reader.printed


def type_all(reader: Reader, text: str) -> None:
    """Type the lines of a block."""
    for line in text.replace("\\\n", " ").replace("your_project", "shop").splitlines():
        awaited = next((text for command, text in ENDLESS.items() if f"{command} " in f"{line} "), None)
        if line.startswith((*PREPARED, ELSEWHERE)):
            continue
        if awaited and not any(word in line for word in ENDING):
            reader.watch(line, awaited)
        else:
            reader.type(line)
