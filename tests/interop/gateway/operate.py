"""Judges what operators get, by programs that others wrote: metrics by the parser of the Prometheus client, manifests by
the schemas of Kubernetes, the rules and the compose file as YAML.

operate.py metrics FILE DASHBOARD RULES   names that the dashboard and the rules ask for and the metrics do not have
operate.py manifests FOLDER               manifests that Kubernetes would refuse
"""

import json
import pathlib
import re
import sys

import yaml

NAME = re.compile(r"\b(?:aqueduct|process)_[a-z0-9_]+")


def samples(file):
    """Every sample, by its name. The parser raises for what is no OpenMetrics."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(pathlib.Path(file).read_text()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def queries(dashboard, rules):
    for panel in json.loads(pathlib.Path(dashboard).read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for group in yaml.safe_load(pathlib.Path(rules).read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"] and rule["labels"]["severity"], rule
            yield rule["alert"], rule["expr"]


def judge_metrics(file, dashboard, rules):
    known = samples(file)
    wrong = []
    for title, expression in queries(dashboard, rules):
        names = NAME.findall(expression)
        if not names:
            wrong.append(f"{title}: no metric in {expression}")
        wrong += [f"{title}: no {name}" for name in names if name not in known]
    return wrong


def judge_manifests(folder):
    import kubernetes_validate

    wrong, kinds = [], []
    for file in sorted(pathlib.Path(folder).glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if document["kind"] == "Kustomization":
                for resource in document["resources"]:
                    assert (file.parent / resource).is_file(), resource
                continue
            kinds.append(document["kind"])
            try:
                kubernetes_validate.validate(document, "1.34", strict=True)
            except Exception as error:  # Whatever it is, the manifest is not valid.
                wrong.append(f"{file.name}: {error}")
    for kind in ["Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ConfigMap"]:
        if kind not in kinds:
            wrong.append(f"there is no {kind}")
    return wrong


def main():
    judge = {"metrics": judge_metrics, "manifests": judge_manifests}[sys.argv[1]]
    wrong = judge(*sys.argv[2:])
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
