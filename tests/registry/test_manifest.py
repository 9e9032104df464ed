import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from registry.manifest import Manifest, check_fits, git_commit
from tests.registry.material import BASE, make_adapter, make_manifest
from turnout.errors import LoadRefused


def test_an_adapter_fits_its_base_and_the_parity_copy_of_it(tmp_path: Path) -> None:
    manifest = make_manifest(make_adapter(tmp_path))
    check_fits(manifest, BASE, tmp_path)
    check_fits(manifest, replace(BASE, sha256="9" * 64, parity_of=BASE.sha256), tmp_path)


@pytest.mark.parametrize(
    ("field", "base"),
    [
        ("base_sha256", replace(BASE, sha256="9" * 64)),
        ("tokenizer_sha256", replace(BASE, tokenizer_sha256="9" * 64)),
        ("template_sha256", replace(BASE, template_sha256="9" * 64)),
        ("eos_ids", replace(BASE, eos_ids=(7,))),
    ],
)
def test_another_base_is_refused_with_the_field_and_both_values(tmp_path: Path, field: str, base: object) -> None:
    manifest = make_manifest(make_adapter(tmp_path))
    with pytest.raises(LoadRefused, match=field) as caught:
        check_fits(manifest, base, tmp_path)  # type: ignore[arg-type]
    assert repr(getattr(manifest, field)) in caught.value.message


def test_changed_files_are_refused(tmp_path: Path) -> None:
    manifest = make_manifest(make_adapter(tmp_path))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"WEIGHTS")
    with pytest.raises(LoadRefused, match="adapter_sha256"):
        check_fits(manifest, BASE, tmp_path)
    make_adapter(tmp_path)
    config = tmp_path / "adapter_config.json"
    config.write_text(config.read_text().replace('"r": 8', '"r": 9'))
    with pytest.raises(LoadRefused, match="rank is 9 here and 8 in its manifest"):
        check_fits(manifest, BASE, tmp_path)
    for broken in ('{"r": 8,', "[1]", b"\xff".decode("latin-1")):
        config.write_text(broken, "latin-1")
        changed = manifest.model_copy(update={"adapter_bytes": len(broken) + len(b"weights")})
        with pytest.raises(LoadRefused, match="is no JSON object"):
            check_fits(changed, BASE, tmp_path)
    config.unlink()
    with pytest.raises(LoadRefused, match=r"lacks adapter_config\.json"):
        check_fits(manifest, BASE, tmp_path)


def test_a_manifest_survives_json_and_unknown_fields(tmp_path: Path) -> None:
    manifest = make_manifest(make_adapter(tmp_path))
    assert Manifest.model_validate_json(manifest.to_json()) == manifest
    assert Manifest.model_validate({**json.loads(manifest.to_json()), "of_a_newer_turnout": 1}) == manifest


def test_a_digest_that_walks_out_of_the_adapters_folder_is_no_manifest(tmp_path: Path) -> None:
    values = json.loads(make_manifest(make_adapter(tmp_path)).to_json())
    with pytest.raises(ValidationError):
        Manifest.model_validate({**values, "adapter_sha256": "../../etc"})


def test_there_is_no_commit_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit() is None
