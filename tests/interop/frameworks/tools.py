"""The tools of every agent of this suite, as plain functions; each framework wraps them in its own way."""

DEGREES = {"Paris": 21, "Rome": 28}
QUESTION = "Deploy to prod?"


def weather(city: str) -> str:
    """The weather of a city."""
    if city not in DEGREES:
        raise ValueError(f"There is no city called {city}.")
    return f"{DEGREES[city]} degrees"


def deploy(cluster: str) -> str:
    """Deploys to a cluster."""
    return f"Deployed to {cluster}."
