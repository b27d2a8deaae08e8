"""Whatever fits the published schema, and much that does not, gets a documented answer."""

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS
from small_networks import make_router

from ndr.tasks import get_task
from ndr.view.server import make_app
from ndr.view.studio import Exhibit, Studio

studio = Studio([Exhibit("router", make_router("ctl-forward"), get_task("ctl-forward"))])
schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(studio, hosts=("testserver",)))
# A text that fits the schema need not be an expression: refusing it with 422 is right.
TOO_STRICT = [check for check in CHECKS.get_all() if check.__name__ == "positive_data_acceptance"]


@schema.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_documented(case):
    case.call_and_validate(excluded_checks=TOO_STRICT)
