"""What tenants may see of each other's shared arrays, and whose memory these are."""

import contextlib

import chx
import pytest

from .daemon import Daemon, wait_until
from .tenants import SPEECH, VISION, TenantsFile, by_token

MIB = 1 << 20


@pytest.fixture
def daemon(tmp_path):
    file = TenantsFile(
        tmp_path / "tenants.yaml",
        vision=by_token(VISION, device_memory={"native:0": "40MiB"}),
        speech=by_token(SPEECH),
        lone=by_token("lone", features=["snapshots"]),
    )
    with Daemon(file.flag) as daemon:
        yield daemon


@contextlib.contextmanager
def sessions(daemon, *tokens):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(chx.connect(daemon.address, token=t)) for t in tokens]


def test_a_capability_is_for_its_tenant_unless_it_says_otherwise(daemon):
    with sessions(daemon, VISION, VISION, SPEECH) as (owner, colleague, stranger):
        array = chx.arange(3, device=owner.devices[0])
        own = array.share()
        assert chx.open(own, session=colleague).tolist() == [0, 1, 2]
        with pytest.raises(chx.ContextError, match="for another tenant"):
            chx.open(own, session=stranger)
        for tenant in ("speech", "*"):
            capability = array.share(tenant=tenant)
            assert chx.open(capability, session=stranger).tolist() == [0, 1, 2]
        with pytest.raises(chx.ContextError, match="for another tenant"):
            chx.open(array.share(tenant="speech"), session=colleague)


def test_only_the_owner_revokes(daemon):
    with sessions(daemon, VISION, SPEECH) as (owner, stranger):
        array = chx.arange(3, device=owner.devices[0])
        capability = array.share(tenant="*")
        opened = chx.open(capability, session=stranger)
        foreign = type(capability)(capability)
        foreign._session = stranger
        with pytest.raises(chx.ContextError, match="that this session has given"):
            foreign.revoke()
        assert opened.tolist() == [0, 1, 2]


def test_names_are_the_tenants_and_their_readers(daemon):
    with sessions(daemon, VISION, SPEECH) as (owner, stranger):
        tree = {"W": chx.ones(2, device=owner.devices[0])}
        owner.publish("secret", tree)
        owner.publish("model", tree, readers=["speech"])
        assert chx.lookup("model", tenant="vision", session=stranger)["W"].tolist() == [1, 1]
        for name, tenant in (("secret", "vision"), ("model", None), ("nothing", "vision")):
            with pytest.raises(chx.ContextError, match="published and that this tenant may"):
                chx.lookup(name, tenant=tenant, session=stranger)
        # Its own namespace: the same name is another one.
        stranger.publish("model", {"W": chx.zeros(2, device=stranger.devices[0])})
        assert chx.lookup("model", session=owner)["W"].tolist() == [1, 1]


def test_a_tenant_without_the_feature_shares_nothing(daemon):
    with sessions(daemon, "lone") as (session,):
        array = chx.ones(2, device=session.devices[0])
        with pytest.raises(chx.ContextError, match="lack shared-names"):
            array.share()
        assert array.tolist() == [1, 1]


def test_what_is_shared_counts_for_the_tenants_part_of_the_device(daemon):
    with sessions(daemon, VISION, VISION) as (owner, colleague):
        array = chx.zeros(15 * MIB, dtype="int8", device=owner.devices[0])
        capability = array.share()

        def held(mib):
            chx.zeros(mib * MIB, dtype="int8", device=colleague.devices[0])[:1].tolist()

        with pytest.raises(chx.OutOfMemoryError, match="limit of 40 MiB on native:0"):
            held(35)
        held(20)
        capability.revoke()  # it keeps the array, too
        del array

        def fits():
            with contextlib.suppress(chx.OutOfMemoryError):
                held(35)
                return True
            return False

        assert wait_until(fits)
