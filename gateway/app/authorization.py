"""The authorizer and the audit log of a broker, by its settings."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headgate.gateway.config.broker import ACL_AUTHORIZERS, PYTHON_PREFIX, python_class
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.storage.errors import StorageError

if TYPE_CHECKING:
    from headgate.gateway.api.authorization import Authorizer
    from headgate.gateway.audit.audit_log import AuditLog
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.metrics import Metrics
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.gateway.security.acls.acls_image import AclsImage
    from headgate.storage.files import Files

logger = logging.getLogger("headgate.authorizer")

OBSERVE = "observe"


def make_authorizer(
    config: BrokerConfig,
    source: Callable[[], AclsImage | None],
    given: Authorizer | None = None,
    audit: AuditLog | None = None,
) -> Authorizer | None:
    """The authorizer of the settings, `given` if there is one; None without `authorizer.class.name`.

    `source`: the ACLs of the moment. `audit`: gets what observing finds. Raises StorageError for a class in Python
    that cannot be used.
    """
    class_name = config.authorizer_class_name
    if given is not None or not class_name:
        return given
    authorizer: Authorizer
    if class_name.startswith(PYTHON_PREFIX):
        authorizer = _load(class_name, config)
    else:
        policy = AclPolicy(config.super_users, config.allow_everyone_if_no_acl_found, class_name in ACL_AUTHORIZERS)
        authorizer = ClusterMetadataAuthorizer(source, policy)
    if config.headgate_authorizer_mode != OBSERVE:
        return authorizer
    if audit is None:
        logger.warning(
            "headgate.authorizer.mode=observe without headgate.audit.log: `headgate acls suggest` needs both"
        )
        return ObservingAuthorizer(authorizer)
    return ObservingAuthorizer(authorizer, audit.report_observed)


def open_audit(
    config: BrokerConfig, files: Files, clock: Clock, scheduler: Scheduler, metrics: Metrics
) -> AuditLog | None:
    """The audit log; None without `headgate.audit.log`. Raises StorageError for a file that cannot be written."""
    if not config.headgate_audit_log:
        return None
    from headgate.gateway.audit.audit_file import AuditFile
    from headgate.gateway.audit.audit_log import AuditLog

    audit = AuditLog(AuditFile(config.headgate_audit_log, files, scheduler), clock, scheduler)
    audit.measure(metrics)
    return audit


def _load(class_name: str, config: BrokerConfig) -> Authorizer:
    """An authorizer of a user: the class is called with the given settings by name. Raises StorageError."""
    module, name = python_class(class_name)
    try:
        made = getattr(importlib.import_module(module), name)(config.given())
    except Exception as error:  # any fault of the user's class
        raise StorageError(f"authorizer.class.name={class_name} cannot be used: {error!r}") from error
    for method in ("allows", "allows_any"):
        if not callable(getattr(made, method, None)):
            raise StorageError(
                f"authorizer.class.name={class_name}: the class has no method {method}; "
                "headgate.gateway.api.authorization.Authorizer has the two that it needs"
            )
    return cast("Authorizer", made)
