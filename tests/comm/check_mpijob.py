"""Holds a Kubernetes job file against the models of kubeflow-training: every field must be known,
every required one there."""
import json
import sys

import yaml
from kubeflow.training import ApiClient, KubeflowOrgV1MPIJob


FAULTS = 3  # the exit code where the file is wrong, and not this program


class Response:
    """What the models are read from: an HTTP answer."""

    def __init__(self, data):
        self.data = json.dumps(data)


def unknown_fields(given, understood, where=""):
    if isinstance(given, dict) and isinstance(understood, dict):
        for key, value in given.items():
            if key in understood:
                yield from unknown_fields(value, understood[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}"
    elif isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        for index, value in enumerate(given):
            yield from unknown_fields(value, understood[index], f"{where}[{index}]")
    elif given != understood:
        yield f"{where} is {given!r}, understood as {understood!r}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = yaml.safe_load(file)
    client = ApiClient()
    try:
        model = client.deserialize(Response(job), KubeflowOrgV1MPIJob)
    except ValueError as error:
        print(f"{sys.argv[1]}: {error}")
        return FAULTS
    faults = list(unknown_fields(job, client.sanitize_for_serialization(model)))
    if (job["apiVersion"], job["kind"]) != ("kubeflow.org/v1", "MPIJob"):
        faults.append("is no kubeflow.org/v1 MPIJob")
    replicas = job["spec"]["mpiReplicaSpecs"]
    slots = replicas["Worker"]["replicas"] * job["spec"]["slotsPerWorker"]
    arguments = replicas["Launcher"]["template"]["spec"]["containers"][0]["args"]
    if arguments[arguments.index("-np") + 1] != str(slots):
        faults.append(f"mpirun starts other than the {slots} ranks that there is room for")
    for fault in faults:
        print(f"{sys.argv[1]}: {fault}")
    return FAULTS if faults else 0


if __name__ == "__main__":
    sys.exit(main())
