"""V2, V10: random changes of partitions give the records of Kafka's own builder.

`explained_difference` has the intended differences (docs/understand/controller.md); there
are no others.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from random import Random
from typing import TYPE_CHECKING, Any

from kraftlog.controller.partition_change import Election, PartitionTarget, partition_change
from kraftlog.controller.state import ControllerState
from kraftlog.metadata.snapshot import partition_record
from kraftlog.metadata.values import PartitionImage
from kraftlog.metadata.versions import record_version
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.record_frames import decode_metadata, encode_metadata

if TYPE_CHECKING:
    from tests.interop.driver import Driver

CASES = 4000
BROKERS = (1, 2, 3, 4)
TOPIC = bytes([9]) * 16
ELECTIONS = {
    Election.PREFERRED: "PREFERRED",
    Election.ONLINE: "ONLINE",
    Election.UNCLEAN: "UNCLEAN",
}


def directory(broker: int) -> bytes:
    """The directory of each broker, which Kafka's builder assigns to new replicas."""
    return (2).to_bytes(8, "big") + broker.to_bytes(8, "big")


class Case:
    """A partition, the cluster around it, and the wanted change."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.elr = rng.random() < 0.6
        self.unclean = rng.random() < 0.4
        self.alive = {broker for broker in BROKERS if rng.random() < 0.6}
        self.min_isr = rng.randint(1, 3)
        self.before = self._partition(rng)
        self.wanted = self._wanted(rng)

    def _partition(self, rng: Random) -> PartitionImage:
        replicas = tuple(rng.sample(BROKERS, rng.randint(1, 4)))
        isr = tuple(broker for broker in replicas if rng.random() < 0.6)
        if not isr and not self.elr:
            isr = (rng.choice(replicas),)
        outside = [broker for broker in replicas if broker not in isr]
        eligible = self.elr and len(isr) < min(self.min_isr, len(replicas))
        elr = tuple(sorted(broker for broker in outside if rng.random() < 0.5)) if eligible else ()
        has_leader = isr and rng.random() < 0.7
        has_last_leader = not has_leader and self.elr and rng.random() < 0.5
        adding, removing = self._reassignment(rng, replicas)
        return PartitionImage(
            topic_id=TOPIC,
            index=0,
            replicas=replicas,
            isr=isr,
            leader=rng.choice(isr) if has_leader else -1,
            leader_epoch=rng.randint(0, 9),
            partition_epoch=rng.randint(0, 9),
            directories=tuple(map(directory, replicas)),
            adding=adding,
            removing=removing,
            elr=elr,
            last_known_elr=(rng.choice(replicas),) if has_last_leader else (),
            recovery=int(rng.random() < 0.1),
        )

    @staticmethod
    def _reassignment(
        rng: Random, replicas: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if rng.random() < 0.6:
            return (), ()
        adding = tuple(sorted(b for b in replicas if rng.random() < 0.4))
        others = [b for b in replicas if b not in adding]
        return adding, tuple(sorted(b for b in others if rng.random() < 0.5))

    def _wanted(self, rng: Random) -> PartitionTarget:
        before = self.before
        wanted = PartitionTarget()
        if rng.random() < 0.6:
            # a leader proposes an ISR, or the brokers that are not alive leave it
            is_proposal = before.leader != -1 and rng.random() < 0.5
            isr = tuple(
                broker
                for broker in before.replicas
                if (
                    broker == before.leader or rng.random() < 0.6
                    if is_proposal
                    else broker in self.alive
                )
            )
            if not is_proposal:
                isr = tuple(broker for broker in before.isr if broker in isr)
            wanted = wanted.replace(isr=isr)
        if rng.random() < 0.3:
            more = [b for b in BROKERS if b not in before.replicas]
            replicas = (*more[: rng.randint(0, 2)], *before.replicas)
            adding = tuple(sorted(set(replicas) - set(before.replicas)))
            wanted = wanted.replace(replicas=replicas, adding=adding or None)
        if rng.random() < 0.2:
            wanted = wanted.replace(unclean=frozenset((rng.choice(BROKERS),)))
        if rng.random() < 0.3:
            wanted = wanted.replace(election=rng.choice(list(ELECTIONS)))
        if before.recovery and before.leader in self.alive and before.leader in (wanted.isr or ()):
            wanted = wanted.replace(recovery=0)
        return wanted

    def as_json(self) -> dict[str, Any]:
        wanted, before = self.wanted, partition_record(self.before)
        election = wanted.election
        if election is None:
            election = Election.UNCLEAN if self.unclean else Election.ONLINE
        framed = encode_metadata(before, record_version(before))
        return {
            "partition": b64encode(framed).decode(),
            "alive": sorted(self.alive),
            "elr": self.elr,
            "min_isr": min(self.min_isr, len(self.before.replicas)),
            "election": ELECTIONS[election],
            "isr": wanted.isr,
            "replicas": wanted.replicas,
            "adding": wanted.adding,
            "removing": wanted.removing,
            "recovery": wanted.recovery,
            "unclean": sorted(wanted.unclean) or None,
        }

    def change_record(self) -> records.PartitionChangeRecord | None:
        state = ControllerState({})
        for record in self.cluster_records():
            state.replay(record)
        return partition_change(state, state.partitions[TOPIC, 0], self.wanted)

    def cluster_records(self) -> list[Any]:
        all_records: list[Any] = [
            records.RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=bytes(16),
                broker_epoch=0,
                end_points=(),
                features=(),
                rack=None,
                fenced=broker not in self.alive,
                log_dirs=(directory(broker),),
            )
            for broker in BROKERS
        ]
        configs = {
            "min.insync.replicas": str(self.min_isr),
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }
        all_records += [
            records.ConfigRecord(resource_type=2, resource_name="t", name=key, value=value)
            for key, value in configs.items()
        ]
        level = records.FeatureLevelRecord(
            name="eligible.leader.replicas.version", feature_level=int(self.elr)
        )
        topic = records.TopicRecord(name="t", topic_id=TOPIC)
        return [*all_records, level, topic, partition_record(self.before)]

    def explained_difference(self, change_record: Any, theirs: Any) -> str | None:
        """The documented difference that explains why the records differ; None if none does."""
        last = self.before.last_known_elr
        if theirs and theirs.last_known_elr == (-1,):
            return "-1, for no leader, is not a last known leader"
        if self.wanted.election == Election.PREFERRED and theirs and (theirs.leader,) == last:
            return "a preferred election elects no last known leader"
        if change_record and theirs and change_record.isr == (change_record.leader,) == theirs.isr:
            ours = change_record.adding_replicas, change_record.removing_replicas
            if ours != (theirs.adding_replicas, theirs.removing_replicas):
                return "an election ends the reassignment that waited for the new leader"
        if change_record and self._is_first_without_fenced(change_record, theirs):
            return "a first leader begins without members of the ISR that are fenced"
        if change_record and theirs and theirs.eligible_leader_replicas and self.min_isr == 1:
            alone = change_record.replace(eligible_leader_replicas=theirs.eligible_leader_replicas)
            if alone == theirs and change_record.isr == (change_record.leader,):
                return "an eligible leader that may commit alone leaves nobody eligible"
        if (
            change_record
            and change_record.last_known_elr
            and not (theirs and theirs.last_known_elr)
        ):
            return "the last replica that leaves ISR and ELR is the last known leader"
        replicas = (
            change_record.replicas
            if change_record is not None and change_record.replicas
            else self.before.replicas
        )
        eligible = (theirs.eligible_leader_replicas if theirs else None) or self.before.elr
        if not set(eligible) <= set(replicas):
            return "a broker without a replica is not eligible"
        return None

    def _is_first_without_fenced(self, change_record: Any, theirs: Any) -> bool:
        """Whether the ISRs differ by brokers that are fenced, where a first leader begins."""
        if self.before.leader != -1 or not theirs or change_record.leader != theirs.leader:
            return False
        kept = theirs.isr or self.before.isr
        living = tuple(b for b in kept if b in self.alive or b == theirs.leader)
        return bool(living != kept and change_record.isr == living)


def test_records_equal_those_of_kafkas_builder(jvm: Driver) -> None:
    cases = [Case(seed) for seed in range(CASES)]
    cases_json = json.dumps([case.as_json() for case in cases]).encode()
    oracle = jvm.tool("PartitionOracle", stdin=cases_json).ok()
    wrong, changed, explained = [], 0, dict[str, int]()
    for seed, (case, answer) in enumerate(zip(cases, json.loads(oracle.stdout), strict=True)):
        theirs = None if answer is None else decode_metadata(b64decode(answer))[0]
        change_record = case.change_record()
        changed += change_record is not None
        if change_record != theirs:
            difference = case.explained_difference(change_record, theirs)
            if difference is None:
                wrong.append((seed, case.before, case.wanted, change_record, theirs))
            else:
                explained[difference] = explained.get(difference, 0) + 1
    assert wrong[:1] == [], f"{len(wrong)} of {CASES}"
    assert changed > CASES // 2
    assert len(explained) == 7, explained
    assert sum(explained.values()) < CASES // 16, explained
