"""The image of ACLs: records there and back, and changes that others may have made already."""

from __future__ import annotations

import pytest

from headgate.gateway.security.acls.acls_image import NO_ACLS, AclsDraft, acl_id_of, binding_of, image_of, record_of
from headgate.protocol.security.acls.tests.made import DENY, PREFIXED, acl


def test_an_acl_comes_back_from_its_record() -> None:
    binding = acl("a", PREFIXED, host="10.0.0.0/8", permission=DENY)
    record = record_of(binding, acl_id_of(binding))
    assert binding_of(record) == binding
    assert type(record.operation) is int


def test_numbers_of_a_newer_kafka_are_unknown() -> None:
    record = record_of(acl(), bytes(16))
    assert not binding_of(record).is_unknown
    record.operation = 99
    assert binding_of(record).is_unknown


def test_equal_acls_have_equal_ids_and_others_have_others() -> None:
    assert acl_id_of(acl()) == acl_id_of(acl())
    several = [acl(), acl(host="::1"), acl(principal="User:b"), acl("x"), acl("t", PREFIXED), acl(permission=DENY)]
    assert len({acl_id_of(binding) for binding in several}) == len(several)
    assert len(acl_id_of(acl("\ud800"))) == 16


def test_a_change_that_is_there_already_changes_nothing() -> None:
    image = image_of([acl()])
    draft = AclsDraft(image)
    draft.add(acl_id_of(acl()), acl())
    draft.add(bytes(16), acl())
    draft.remove(acl_id_of(acl("gone")))
    assert draft.finish() == image


def test_an_id_has_one_acl() -> None:
    draft = AclsDraft(image_of([acl()]))
    with pytest.raises(ValueError, match="is that of ALLOW READ on TOPIC:LITERAL:t"):
        draft.add(acl_id_of(acl()), acl("x"))


def test_added_and_removed_in_one_change_is_nothing() -> None:
    draft = AclsDraft(NO_ACLS)
    draft.add(bytes(16), acl())
    draft.remove(bytes(16))
    assert draft.finish() == NO_ACLS
    assert NO_ACLS.ids == {}
