"""The table of APIs and the schemas are consistent."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import pytest

from kraftlog.errors import UnsupportedVersionError
from kraftlog.wire import apis, schema
from kraftlog.wire.apis import APIS, Api, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.schema import FOREVER, Field, Message
from kraftlog.wire.versioned_schema import VersionedSchema
from tests.wire.samples import Sampler, for_every_message, parts_of, versions_of
from tests.wire.test_against_kio import APIS_OF_KAFKA, kio_versions

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@EVERY_API
def test_the_api_table_matches_the_classes(api: Api) -> None:
    for cls in (api.request(), api.response()):
        assert cls._versions == (api.first, api.last)
        assert cls._flexible == api.flexible


def test_every_api_key_has_an_api_of_its_name() -> None:
    keys = {name: key for name, key in vars(ApiKey).items() if not name.startswith("_")}
    assert sorted(keys.values()) == sorted(APIS)
    for name, key in keys.items():
        assert APIS[key].module.upper() == name
        assert APIS[key].key == key
    assert apis.NEVER == FOREVER


@pytest.mark.parametrize("api", APIS_OF_KAFKA, ids=lambda api: api.name)
def test_header_versions_agree_with_kio(api: Api) -> None:
    for version in kio_versions(api):
        package = f"kio.schema.{api.module}.v{version}"
        for kind, header_version in (
            ("request", api.request_header_version(version)),
            ("response", api.response_header_version(version)),
        ):
            module = import_module(f"{package}.{kind}")
            kio_message: Any = getattr(module, api.name + kind.capitalize())
            assert kio_message.__api_key__ == api.key
            header_module = f"kio.schema.{kind}_header.v{header_version}.header"
            assert kio_message.__header_schema__.__module__ == header_module


@for_every_message
def test_every_schema_is_consistent(cls: type[Message]) -> None:
    first, last = cls._versions
    for part in parts_of(cls):
        tags = [field.tag for field in part._schema if field.tag >= 0]
        assert len(tags) == len(set(tags))
        for field in part._schema:
            assert field.since <= last, f"{field} never appears"
            assert first <= field.until, f"{field} is gone before the first version"
            assert field.null_since == FOREVER or field.null_since <= last
            if field.tag >= 0:
                assert not field.required, f"{field} is tagged, so it may be absent"
                assert max(field.since, first) >= cls._flexible, (
                    f"{field}: no tags before the flexible versions"
                )
            if not all(field.in_version(version) for version in versions_of(cls)):
                assert not field.required, f"{field} is absent in some version"


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        schema.int32(sicne=3)


# Values that a version lacks ---------------------------------------------------------------------


def other_value(field: Field, cls: type[Message]) -> Any:
    """A value other than the default, in a version that has the field."""
    schema = VersionedSchema(cls, max(field.since, cls._versions[0]))
    sampler = Sampler(Random(1), null_share=0)
    return next(v for _ in range(1000) if (v := sampler.value(field, schema)) != field.default)


def full_message(cls: type[Message], version: int) -> Any:
    """A message in which every array has an item and nothing is null."""
    return _full_message(cls, VersionedSchema(cls, version))


def _full_message(cls: type[Message], schema: VersionedSchema) -> Any:
    sampler, values = Sampler(Random(2), null_share=0), {}
    for field in cls._schema:
        if not field.in_version(schema.version):
            values[field.name] = field.default
            continue
        value = (
            _full_message(field.struct, schema) if field.struct else sampler.primitive(field.kind)
        )
        values[field.name] = (value,) if field.is_array else value
    return cls(**values)


def structs_in(message: Message, version: int) -> list[Message]:
    """The message and every struct in it that the version has."""
    structs = [message]
    for field in type(message)._schema:
        if field.struct is not None and field.in_version(version):
            value = getattr(message, field.name)
            for part in value if field.is_array else (value,):
                structs += structs_in(part, version)
    return structs


@for_every_message
def test_a_value_that_the_version_lacks_is_refused_unless_ignorable(cls: type[Message]) -> None:
    for version in versions_of(cls):
        schema, message = VersionedSchema(cls, version), full_message(cls, version)
        raw = encode(message, version)
        for part in structs_in(message, version):
            for field in schema.absent(type(part)):
                setattr(part, field.name, other_value(field, cls))
                if field.ignorable:
                    assert encode(message, version) == raw
                else:
                    with pytest.raises(UnsupportedVersionError, match=field.name):
                        encode(message, version)
                setattr(part, field.name, field.default)


@for_every_message
def test_null_is_refused_in_fields_that_are_not_nullable(cls: type[Message]) -> None:
    for version in versions_of(cls):
        schema, message = VersionedSchema(cls, version), full_message(cls, version)
        for part in structs_in(message, version):
            for field in (*schema.plain(type(part)), *schema.tagged(type(part))):
                is_never_null = not field.is_array and (
                    field.kind not in {"string", "bytes", "batches", "struct"}
                )
                if is_never_null or field.nullable_in(version):
                    continue
                value = getattr(part, field.name)
                setattr(part, field.name, None)
                with pytest.raises(UnsupportedVersionError, match=f"{field.name} may not be null"):
                    encode(message, version)
                setattr(part, field.name, value)


def test_a_version_that_does_not_exist_is_refused() -> None:
    cls = APIS[ApiKey.FETCH].request()
    with pytest.raises(UnsupportedVersionError, match="FetchRequest has versions 4 to 18, not 3"):
        encode(Sampler(Random(0)).message(cls, 4), 3)
