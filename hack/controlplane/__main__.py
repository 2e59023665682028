"""The command line for developers: `PYTHONPATH=hack python -m controlplane up|down|env|status|heal [NAME]`."""

import argparse
import sys
from collections.abc import Sequence

from controlplane import ControlPlane, ControlPlaneError, binaries
from controlplane.cluster import COMPONENTS, names
from controlplane.credentials import CredentialsError

DEFAULT_NAME = "dev"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (ControlPlaneError, CredentialsError, binaries.BinaryError) as error:
        print(error, file=sys.stderr)
        return 1


def _up(arguments: argparse.Namespace) -> int:
    if arguments.name in names():
        control_plane = ControlPlane.attach(arguments.name)
        control_plane.heal()
    else:
        control_plane = ControlPlane.start(
            arguments.name,
            audit=not arguments.no_audit,
            nodes=arguments.nodes,
            extra_apiserver_args=dict(argument.split("=", 1) for argument in arguments.apiserver_arg),
            kcm_fast=arguments.kcm_fast,
            tmpfs=arguments.tmpfs,
            detached=True,
        )
    print(f"cluster {control_plane.name} is ready at {control_plane.server}", file=sys.stderr)
    return _env(arguments)


def _down(arguments: argparse.Namespace) -> int:
    ControlPlane.attach(arguments.name).stop()
    return 0


def _env(arguments: argparse.Namespace) -> int:
    control_plane = ControlPlane.attach(arguments.name)
    print(f'export KUBECONFIG="{control_plane.kubeconfig}"')
    print(f'export PATH="{control_plane.kubectl_path.parent}:$PATH"')
    return 0


def _heal(arguments: argparse.Namespace) -> int:
    ControlPlane.attach(arguments.name).heal()
    return 0


def _status(arguments: argparse.Namespace) -> int:
    """Print the state of one cluster or of all; exit code 1 when one is not ready."""
    unready = 0
    for name in [arguments.name] if arguments.name else names():
        control_plane = ControlPlane.attach(name)
        problem = control_plane.unready()
        control_plane.close()
        unready += bool(problem)
        print(f"{name}: {problem or 'ready'}")
        living = control_plane.pids()
        for component in COMPONENTS:
            print(f"  {component:24} {living.get(component, 'dead'):>8}  {control_plane.component_log(component)}")
    return 1 if unready else 0


def _binaries(_: argparse.Namespace) -> int:
    for name, path in binaries.ensure().items():
        print(f"{name:24} {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="controlplane", description="A real control plane on 127.0.0.1, no containers."
    )
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: object, text: str, *, default: str | None = DEFAULT_NAME) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("name", nargs="?", default=default, metavar="NAME", help=f"default: {default or 'all'}")
        added.set_defaults(run=run)
        return added

    up = command("up", _up, "start a cluster, or heal the one of that name; prints what `env` prints")
    up.add_argument("--nodes", type=int, default=2, help="simulated nodes (default: 2)")
    up.add_argument("--kcm-fast", action="store_true", help="no request limit for the controller manager")
    up.add_argument("--tmpfs", action="store_true", help="etcd's data in memory")
    up.add_argument("--no-audit", action="store_true", help="no audit log")
    up.add_argument(
        "--apiserver-arg", action="append", default=[], metavar="KEY=VALUE", help="a flag of kube-apiserver"
    )
    command("down", _down, "stop a cluster and remove its files")
    command("env", _env, 'print the shell commands to use it: eval "$(python -m controlplane env)"')
    command("heal", _heal, "restart what is dead and wait until it is ready")
    command("status", _status, "show components and what is not ready", default=None)
    fetch = commands.add_parser("binaries", help="get the programs (find, download or build) and print their paths")
    fetch.set_defaults(run=_binaries)
    return parser


if __name__ == "__main__":
    sys.exit(main())
