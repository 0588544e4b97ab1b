"""Names under which anybody can have one: a pattern over them would allow everybody's hosts.

Not the whole list of public suffixes, which needs a release a month: every top level, the usual second levels of
countries, and where code, pages and buckets are put most.
"""

_COUNTRIES_USE = (
    "ac co com edu gen go gob gouv gov govt id idv in info ltd me mil muni ne net nhs nom or org plc priv pro sch web"
)
_HOSTS_USE = (
    "amazonaws.com amplifyapp.com appspot.com awsapprunner.com azureedge.net azurefd.net "
    "azurewebsites.net b-cdn.net backblazeb2.com bitbucket.io blogspot.com cloudapp.net "
    "cloudapp.azure.com cloudfront.net core.windows.net deno.dev digitaloceanspaces.com duckdns.org "
    "elasticbeanstalk.com fastly.net firebaseapp.com firebaseio.com fly.dev github.dev github.io "
    "gitlab.io glitch.me herokuapp.com hf.space loca.lt myshopify.com netlify.app ngrok-free.app "
    "ngrok.app ngrok.io nip.io on.aws ondigitalocean.app onrender.com pages.dev r2.cloudflarestorage.com "
    "r2.dev railway.app readthedocs.io replit.app replit.dev repl.co run.app sharepoint.com sslip.io "
    "storage.googleapis.com supabase.co surge.sh trafficmanager.net trycloudflare.com vercel.app web.app "
    "workers.dev wordpress.com xip.io "
)
_SECOND_LEVELS = frozenset(_COUNTRIES_USE.split())
_HOSTED = frozenset(_HOSTS_USE.split())


def is_open_to_all(name: str) -> bool:
    """Whether names below this one belong to whoever asks for them, as *.com and *.github.io do."""
    labels = name.split(".")
    if len(labels) == 1 or (len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _SECOND_LEVELS):
        return True
    return any(f".{name}".endswith(f".{suffix}") or suffix.endswith(f".{name}") for suffix in _HOSTED)
