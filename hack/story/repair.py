"""What goes wrong from outside: children that somebody changes, specs that make no sense, an image that is missing."""

from functools import partial

from story.opening import SAMPLE, serving
from story.rig import Mark, Reaction, Rig, condition, settled
from story.telling import Scene

_PATCH = f"kubectl patch memcached {SAMPLE} --type=merge \\\n    -p "
_TOLD = ("Created", "Scaled", "Updated", "ImagePullFailed")
_REFUSED = (
    (f"""{_PATCH}'{{"spec":{{"size":-1}}}}'""", "greater than or equal to 0"),
    (
        "sed 's/size/sise/; s/sample/typo/' \\\n    config/samples/cache_v1alpha1_memcached.yaml | kubectl apply -f -",
        'unknown field "spec.sise"',
    ),
    (
        f"""{_PATCH}'{{"spec":{{"memory":512,"resources":{{"limits":{{"memory":"256Mi"}}}}}}}}'""",
        "raise it to at least",
    ),
)


def drift(rig: Rig, scene: Scene) -> None:
    """Delete the Deployment, edit its replicas, edit its image: each is put right."""
    image = _image(rig)
    uid = rig.get("Deployment", SAMPLE)["metadata"]["uid"]
    mark = rig.mark()
    scene.act(f"kubectl delete deployment {SAMPLE}")
    scene.until(lambda: _deployment(rig) != uid and rig.find("Deployment", SAMPLE), "another Deployment")
    scene.until(lambda: _whole(rig, image), "three ready pods")
    took = scene.since_act
    scene.show(f"kubectl get deployment {SAMPLE}")
    _claim_repair(rig, scene, mark, "A deleted Deployment is made again", f"its pods are ready after {took:.1f} s")

    mark = rig.mark()
    scene.act(f"kubectl scale deployment {SAMPLE} --replicas=5")
    scene.until(lambda: _answered(rig, mark) and _whole(rig, image), "three replicas")
    scene.show(f"kubectl get deployment {SAMPLE}")
    _claim_repair(rig, scene, mark, "Edited replicas are put back", "three, as the Memcached says")

    mark = rig.mark()
    scene.act(f"kubectl set image deployment/{SAMPLE} memcached=redis:7")
    scene.until(lambda: _answered(rig, mark) and _whole(rig, image), "the right image")
    scene.show(f"kubectl describe deployment {SAMPLE} | grep Image:")
    _claim_repair(rig, scene, mark, "An edited image is put back", "no pod with another one is left")


def refusal(rig: Rig, scene: Scene) -> None:
    """Ask for what makes no sense: the API server says what is wrong, and nothing changes."""
    before = rig.get("Memcached", SAMPLE)["spec"]
    for command, reason in _REFUSED:
        answer = scene.act(command, refused=True)
        if reason not in answer.text:
            scene.claim(holds=False, text=f"The message holds the words: {reason}")
    after = rig.get("Memcached", SAMPLE)["spec"]
    scene.claim(
        before == after and rig.names() == [SAMPLE],
        "Refused by the API server itself, in words; nothing was changed or made.",
        rig.names(),
    )


def broken_image(rig: Rig, scene: Scene) -> None:
    """Roll out an image that cannot be pulled: the cache serves on, and the status says what is wrong."""
    addresses = serving(rig, scene, SAMPLE)
    scene.act(f"""{_PATCH}'{{"spec":{{"image":"memcached:does-not-exist"}}}}'""")
    scene.show(f"kubectl wait --for=condition=Degraded memcached/{SAMPLE} --timeout=60s")
    took = scene.since_act
    scene.show(f"kubectl get memcached {SAMPLE}")
    scene.show(f"kubectl get pods -l memcached_cr={SAMPLE}")
    scene.show(f"kubectl describe memcached {SAMPLE} | grep -B 5 'Type: *Degraded'")
    memcached = rig.get("Memcached", SAMPLE)
    said = condition(memcached, "Degraded").get("message", "")
    scene.claim(
        "does-not-exist" in said and took < 30,
        f"The status names the pod and repeats its words {took:.1f} s after the patch.",
        said,
    )
    scene.claim(
        condition(memcached, "Available").get("status") == "True" and rig.endpoints(SAMPLE) == addresses,
        "The three old pods serve on: the roll-out waits for a new one to be ready.",
        rig.endpoints(SAMPLE),
    )
    scene.act(f"""kubectl patch mc {SAMPLE} -p '{{"spec":{{"image":null}}}}' --type=merge""")
    scene.show(f"kubectl wait --for=condition=Ready memcached/{SAMPLE} --timeout=60s")
    scene.claim(
        settled(rig.get("Memcached", SAMPLE)) and rig.endpoints(SAMPLE) == addresses,
        f"Taken back: Ready {scene.since_act:.1f} s later, with the same pods.",
    )


def told(rig: Rig, scene: Scene) -> None:
    """Show conditions and events as kubectl prints them."""
    scene.show(f"kubectl describe mc {SAMPLE} | sed -n '/Conditions:/,/Degraded/p'")
    for reason in _TOLD:
        scene.until(partial(rig.events, SAMPLE, reason), f"the event {reason}")
    answer = scene.show(f"kubectl events --for memcached/{SAMPLE}").text
    untold = [reason for reason in _TOLD if reason not in answer]
    scene.claim(not untold, "All that happened so far can be read from the events.", f"no event {untold}")


def _claim_repair(rig: Rig, scene: Scene, mark: Mark, what: str, then: str) -> None:
    answered = _answered(rig, mark)
    milliseconds = f" {answered.seconds * 1000:.0f} ms later" if answered else ""
    scene.claim(answered and answered.seconds < 5, f"{what}{milliseconds}: {then}.")


def _answered(rig: Rig, mark: Mark) -> Reaction | None:
    return rig.reaction(mark, asked="deployments", wrote="deployments")


def _whole(rig: Rig, image: str) -> bool:
    """Tell whether there are three ready pods, all of this image, and the Deployment wants no others."""
    deployment = rig.find("Deployment", SAMPLE)
    pods = rig.of("Pod", SAMPLE)
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    return (
        deployment is not None
        and deployment["spec"]["replicas"] == len(pods) == len(rig.ready_pods(SAMPLE)) == 3
        and images == {_image(rig)} == {image}
    )


def _image(rig: Rig) -> str:
    return str(rig.get("Deployment", SAMPLE)["spec"]["template"]["spec"]["containers"][0]["image"])


def _deployment(rig: Rig) -> str:
    found = rig.find("Deployment", SAMPLE)
    return found["metadata"]["uid"] if found else ""
