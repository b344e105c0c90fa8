"""Which commands there are: the help page is made from this, and a module is imported when its command runs."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: where it is on the help page, what it does, and ``module:attribute`` that holds it."""

    name: str
    group: str
    help: str
    place: str


SERVE, MODELS, SETTINGS, REFUSED = "Serve and chat", "Models", "Engines and settings", "Refused by design"

ENTRIES = (
    Entry("serve", SERVE, "Answer requests on this machine's address.", "serve:serve"),
    Entry("run", SERVE, "Ask a model, or talk to it.", "run:run"),
    Entry("ps", SERVE, "List the models in memory.", "running:ps"),
    Entry("warm", SERVE, "Bring a model into memory.", "running:warm"),
    Entry("stop", SERVE, "Take a model out of memory, or stop the daemon.", "running:stop"),
    Entry("bench", SERVE, "Measure how fast a model reads and writes.", "bench:bench"),
    Entry("coreside", SERVE, "Plan which models fit in memory together.", "coreside:coreside"),
    Entry("explain", SERVE, "Say which engine runs a model, and why.", "explain:explain"),
    Entry("session", SERVE, "Save what a model has read, and give it back.", "session:session"),
    Entry("pull", MODELS, "Fetch a model.", "models:pull"),
    Entry("search", MODELS, "Look for models on the Hugging Face hub.", "models:search"),
    Entry("fit", MODELS, "Say whether a model fits this machine, before it is fetched.", "fit:fit"),
    Entry("import", MODELS, "Take in a model file that is already here.", "models:import_"),
    Entry("create", MODELS, "Make a model as a Modelfile says it.", "models:create"),
    Entry("list", MODELS, "List the models on disk.", "models:list_"),
    Entry("show", MODELS, "Show what a model is.", "models:show"),
    Entry("cp", MODELS, "Give a model a second name.", "models:copy"),
    Entry("mmproj", MODELS, "Give a model the projector that lets it see.", "models:mmproj"),
    Entry("lora", MODELS, "Put adapters on models.", "lora:lora"),
    Entry("quantize", MODELS, "Make a smaller model of one.", "quantize:quantize"),
    Entry("rm", MODELS, "Remove models.", "models:remove"),
    Entry("engine", SETTINGS, "List, install, update, compile and remove engines.", "engine:engine"),
    Entry("config", SETTINGS, "See and change the settings.", "config:config"),
    Entry("keys", SETTINGS, "Say who may ask, for what, and for how much.", "keys:keys"),
    Entry("doctor", SETTINGS, "Check this installation and say what to mend.", "doctor:doctor"),
    Entry("snapshot", SETTINGS, "Keep a copy of the database and the settings.", "snapshot:snapshot"),
    Entry("completions", SETTINGS, "Print the completion script of a shell.", "completions:completions"),
    Entry("push", REFUSED, "Models stay here.", "refused:push"),
    Entry("login", REFUSED, "There is no account.", "refused:login"),
    Entry("logout", REFUSED, "There is no account.", "refused:logout"),
    Entry("signin", REFUSED, "There is no account.", "refused:signin"),
    Entry("signout", REFUSED, "There is no account.", "refused:signout"),
)

ALIASES = {"ls": "list", "start": "serve"}
