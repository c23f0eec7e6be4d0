"""The cluster examples, as far as they can be checked without a cluster."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from myxtts.cli.app import app
from myxtts.config.config import XTTSConfig
from myxtts.replicas.cluster import find_cluster
from tests.support import ROOT

FOLDER = ROOT / "examples" / "cluster"
SERVICE, JOB = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
DOCKERFILE = (FOLDER / "Dockerfile").read_text()


def parse(words: list[str]) -> dict[str, Any]:
    """The settings typed after `myxtts train`; a wrong flag is an error."""
    command = typer.main.get_command(app).commands["train"]
    context = command.make_context("train", list(words))
    return {name: value for name, value in context.params.items() if value is not None}


def check_by_schema(document: dict[str, Any]) -> None:
    schemas = json.loads((ROOT / "tests/fixtures/kubernetes_1.30.json").read_text())
    name = {"Job": "io.k8s.api.batch.v1.Job", "Service": "io.k8s.api.core.v1.Service"}
    schema = {**schemas, "$ref": f"#/$defs/{name[document['kind']]}"}
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("document", [SERVICE, JOB], ids=lambda d: d["kind"])
def test_the_manifest_is_valid_by_the_published_schema(document):
    check_by_schema(document)


def test_a_field_that_does_not_exist_is_seen_wherever_it_stands():
    for path in (("spec",), ("spec", "template", "spec", "containers", 0), ("metadata",)):
        wrong = copy.deepcopy(JOB)
        place = wrong
        for name in path:
            place = place[name]
        place["replica"] = 2
        with pytest.raises(jsonschema.ValidationError, match="replica"):
            check_by_schema(wrong)


def container() -> dict[str, Any]:
    (found,) = JOB["spec"]["template"]["spec"]["containers"]
    return found


def test_every_pod_finds_its_place_among_the_others():
    name, spec = JOB["metadata"]["name"], JOB["spec"]
    (told,) = (e["value"] for e in container()["env"] if e["name"] == "TF_CONFIG")
    for index in range(spec["completions"]):
        found = find_cluster({"TF_CONFIG": told.replace("$(REPLICA)", str(index))})
        assert found.rank == index
        host, _, port = found.addresses[index].partition(":")
        # How an indexed Job names its pods, below the service that their subdomain names.
        assert host == f"{name}-{index}.{SERVICE['metadata']['name']}"
        assert int(port) == SERVICE["spec"]["ports"][0]["port"]
        assert int(port) == container()["ports"][0]["containerPort"]
    assert found.world == spec["completions"] == spec["parallelism"]
    assert spec["template"]["spec"]["subdomain"] == SERVICE["metadata"]["name"]
    assert SERVICE["spec"]["selector"] == {"job-name": name}


def test_the_container_runs_a_command_of_ours():
    assert 'ENTRYPOINT ["myxtts"]' in DOCKERFILE
    command, *words = container()["args"]
    assert command == "train"
    given = parse(words)
    mounts = [mount["mountPath"] for mount in container()["volumeMounts"]]
    assert str(given["train_data"]).startswith(mounts[0])
    assert str(given["checkpoint_dir"]).startswith(mounts[1])
    XTTSConfig(model={"size": given["model_size"]})


def test_the_dockerfile_copies_what_is_there_and_installs_extras_that_exist():
    project = (ROOT / "pyproject.toml").read_text()
    for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())
    extras = re.findall(r"EXTRAS=([\w,]+)", DOCKERFILE)
    assert len(extras) == 2
    for name in {name for some in extras for name in some.split(",")}:
        assert re.search(rf"^{name} = \[", project, re.MULTILINE), name


def test_the_batch_script_is_sound_and_starts_a_command_of_ours():
    script = FOLDER / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    lines = script.read_text().replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if line.startswith("srun"))
    words = shlex.split(line)
    at = words.index("myxtts")
    assert all(word.startswith("--") for word in words[1:at])  # srun's own
    assert words[at + 1] == "train"
    parse(words[at + 2 :])


@pytest.mark.parametrize("language", ["en", "fa"])
def test_the_table_in_the_guide_is_the_one_that_is_calculated(language):
    from benchmarks.scale import paper

    guide = (ROOT / "docs" / language / "scaling.md").read_text()
    rows = [line for line in paper() if line.startswith("| ")][1:]
    assert len(rows) == 3
    assert all(row in guide for row in rows)
