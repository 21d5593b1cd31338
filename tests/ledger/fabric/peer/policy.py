"""The sentences in which Fabric says that a channel policy is not satisfied."""


def unsatisfied(policy: str) -> str:
    """`policy`: Readers or Writers, of which any one organisation's suffices."""
    return (
        "implicit policy evaluation failed - 0 sub-policies were satisfied, but this policy requires 1 of the "
        f"'{policy}' sub-policies to be satisfied"
    )


def unsatisfied_on_signed_data(policy: str, channel: str) -> str:
    return (
        f"Failed evaluating policy on signed data during check policy on channel [{channel}] with policy "
        f"[/Channel/Application/{policy}]: [{unsatisfied(policy)}]"
    )
