"""Fake secrets of many kinds, put together from parts when they are asked for: none is written down in this file.

A kind is what a secret is called where it is set, and a function that makes one. Forms are the ways in which a
transcript comes to hold one.
"""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = string.ascii_letters + DIGITS
HEX = "0123456789abcdef"
URL_SAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"

Make = Callable[[random.Random], str]


def some(alphabet: str, length: int) -> Make:
    return lambda r: "".join(r.choice(alphabet) for _ in range(length))


def parts(*made: str | Make) -> Make:
    """The parts in a row, each a text or made anew."""
    return lambda r: "".join(one if isinstance(one, str) else one(r) for one in made)


def uuid(r: random.Random) -> str:
    return "-".join(some(HEX, n)(r) for n in (8, 4, 4, 4, 12))


def pem(label: str, *, lines: int, width: int = 64) -> Make:
    def make(r: random.Random) -> str:
        body = "\n".join(some(BASE64, width)(r) for _ in range(lines))
        return f"-----BEGIN {label}-----\n{body}\n{some(BASE64, 30)(r)}==\n-----END {label}-----"

    return make


def packed(fields: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def jwt(r: random.Random) -> str:
    claims = {"sub": some(DIGITS, 10)(r), "name": some(LOWER, 8)(r), "iat": some(DIGITS, 10)(r)}
    return f"{packed({'alg': 'HS256', 'typ': 'JWT'})}.{packed(claims)}.{some(URL_SAFE, 43)(r)}"


KINDS: dict[str, Make] = {
    "AWS_ACCESS_KEY_ID": parts("AK", "IA", some(UPPER + "234567", 16)),
    "AWS_SECRET_ACCESS_KEY": some(BASE64, 40),
    "GITHUB_TOKEN": parts("gh", "p_", some(ALNUM, 36)),
    "GITHUB_OAUTH": parts("gh", "o_", some(ALNUM, 36)),
    "GITHUB_APP": parts("gh", "s_", some(ALNUM, 36)),
    "GITHUB_PAT": parts("github", "_pat_", some(ALNUM, 22), "_", some(ALNUM, 59)),
    "GITLAB_TOKEN": parts("gl", "pat-", some(URL_SAFE, 20)),
    "SLACK_BOT": parts("xo", "xb-", some(DIGITS, 12), "-", some(DIGITS, 12), "-", some(ALNUM, 24)),
    "SLACK_USER": parts("xo", "xp", *[one for _ in range(3) for one in ("-", some(DIGITS, 12))], "-", some(HEX, 32)),
    "SLACK_WEBHOOK": parts("https://hooks.sl", "ack.com/services/T", some(UPPER, 8), "/B", some(ALNUM, 33)),
    "STRIPE_SECRET_KEY": parts("sk", "_live_", some(ALNUM, 24)),
    "STRIPE_RESTRICTED": parts("rk", "_live_", some(ALNUM, 24)),
    "OPENAI_API_KEY": parts("sk-", "proj-", some(URL_SAFE, 74), "T3Blbk", "FJ", some(URL_SAFE, 74)),
    "OPENAI_LEGACY_KEY": parts("sk-", some(ALNUM, 20), "T3Blbk", "FJ", some(ALNUM, 20)),
    "ANTHROPIC_API_KEY": parts("sk-", "ant-api03-", some(URL_SAFE, 93), "AA"),
    "ANTHROPIC_ADMIN_KEY": parts("sk-", "ant-admin01-", some(URL_SAFE, 93), "AA"),
    "CLAUDE_CODE_OAUTH_TOKEN": parts("sk-", "ant-oat01-", some(URL_SAFE, 86), "AA"),
    "GOOGLE_API_KEY": parts("AI", "za", some(URL_SAFE, 35)),
    "GOOGLE_CLIENT_SECRET": parts("GOC", "SPX-", some(URL_SAFE, 28)),
    "GOOGLE_ACCESS_TOKEN": parts("ya", "29.", some(URL_SAFE, 120)),
    "HF_TOKEN": parts("h", "f_", some(ALNUM[:52], 34)),
    "NPM_TOKEN": parts("np", "m_", some(ALNUM, 36)),
    "TWINE_PASSWORD": parts("py", "pi-AgEIcHlwaS5vcmc", some(URL_SAFE, 150)),
    "SENDGRID_API_KEY": parts("S", "G.", some(URL_SAFE, 22), ".", some(URL_SAFE, 43)),
    "TWILIO_API_KEY": parts("S", "K", some(HEX, 32)),
    "MAILGUN_API_KEY": parts("ke", "y-", some(HEX, 32)),
    "MAILCHIMP_API_KEY": parts(some(HEX, 32), "-us", "14"),
    "DIGITALOCEAN_TOKEN": parts("do", "p_v1_", some(HEX, 64)),
    "HEROKU_API_KEY": uuid,
    "HEROKU_TOKEN": parts("HR", "KU-AA", some(URL_SAFE, 58)),
    "SHOPIFY_TOKEN": parts("shp", "at_", some(HEX, 32)),
    "SQUARE_TOKEN": parts("sq", "0atp-", some(URL_SAFE, 22)),
    "DATABRICKS_TOKEN": parts("da", "pi", some(HEX, 32)),
    "DOPPLER_TOKEN": parts("dp", ".pt.", some(ALNUM, 43)),
    "DYNATRACE_TOKEN": parts("dt0", "c01.", some(UPPER + DIGITS, 24), ".", some(UPPER + DIGITS, 64)),
    "GRAFANA_TOKEN": parts("gl", "sa_", some(ALNUM, 32), "_", some(HEX, 8)),
    "LINEAR_API_KEY": parts("lin", "_api_", some(ALNUM, 40)),
    "NOTION_TOKEN": parts("nt", "n_", some(DIGITS, 11), some(ALNUM, 35)),
    "NEW_RELIC_KEY": parts("NR", "AK-", some(UPPER + DIGITS, 27)),
    "PLANETSCALE_TOKEN": parts("pscale", "_tkn_", some(URL_SAFE, 43)),
    "POSTMAN_KEY": parts("PM", "AK-", some(HEX, 24), "-", some(HEX, 34)),
    "PULUMI_TOKEN": parts("pu", "l-", some(HEX, 40)),
    "RUBYGEMS_KEY": parts("ruby", "gems_", some(HEX, 48)),
    "SENTRY_TOKEN": parts("sntr", "yu_", some(HEX, 64)),
    "TELEGRAM_BOT_TOKEN": parts(some("123456789", 10), ":A", some(URL_SAFE, 34)),
    "VAULT_TOKEN": parts("hv", "s.", some(URL_SAFE, 95)),
    "TERRAFORM_TOKEN": parts(some(ALNUM, 14), ".atlas", "v1.", some(ALNUM, 65)),
    "CLOUDFLARE_API_KEY": some(LOWER + DIGITS, 40),
    "DATADOG_API_KEY": some(LOWER + DIGITS, 40),
    "FASTLY_API_TOKEN": some(ALNUM, 32),
    "ALIBABA_KEY_ID": parts("LT", "AI", some(LOWER + DIGITS, 20)),
    "AZURE_CLIENT_SECRET": parts(some(ALNUM, 3), "8", "Q~", some(ALNUM, 34)),
    "AZURE_STORAGE": parts(some(BASE64, 86), "=="),
    "AGE_KEY": parts("AGE-SECRET", "-KEY-1", some("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "ONEPASSWORD_KEY": parts("A", "3-", some(UPPER + DIGITS, 6), "-", some(UPPER + DIGITS, 11), *(
        one for _ in range(3) for one in ("-", some(UPPER + DIGITS, 5))
    )),
    "DOCKER_PAT": parts("dckr", "_pat_", some(URL_SAFE, 27)),
    "SUPABASE_TOKEN": parts("sb", "p_", some(HEX, 40)),
    "TAILSCALE_KEY": parts("ts", "key-auth-", some(ALNUM, 11), "CNTRL-", some(ALNUM, 32)),
    "OPENROUTER_API_KEY": parts("sk-", "or-v1-", some(HEX, 64)),
    "GROQ_API_KEY": parts("gs", "k_", some(ALNUM, 52)),
    "XAI_API_KEY": parts("xa", "i-", some(ALNUM, 80)),
    "REPLICATE_TOKEN": parts("r", "8_", some(ALNUM, 37)),
    "LANGSMITH_API_KEY": parts("lsv", "2_pt_", some(HEX, 32), "_", some(HEX, 10)),
    "CLEW_KEY": parts("clew", "_agent_", some(ALNUM, 12), "_", some(ALNUM, 43), "_", some(HEX, 8)),
    "SESSION_JWT": jwt,
    "DATABASE_URL": some(ALNUM + "!*", 20),
    "DB_PASSWORD": parts(some(ALNUM, 6), "!", some(DIGITS, 2), some(LOWER, 5), "#", some(DIGITS, 2)),
    "SERVICE_API_KEY": parts(some(ALNUM, 32), some(DIGITS, 4)),
    "RSA_KEY": pem("RSA PRIVATE " + "KEY", lines=12),
    "SSH_KEY": pem("OPENSSH PRIVATE " + "KEY", lines=6, width=70),
}  # fmt: skip

# Where a secret is a part of what is set.
WITHIN = {
    "DATABASE_URL": "postgresql://app:{}@db.internal:5432/app",
    "AZURE_STORAGE": "DefaultEndpointsProtocol=https;AccountName=fake;AccountKey={};EndpointSuffix=core.windows.net",
}


def forms(name: str, secret: str) -> Iterator[tuple[str, str]]:
    """The secret as transcripts hold it: how, and the text."""
    yield "env file", f"# settings\nPORT=8000\n{name}={secret}\nDEBUG=1\n"
    yield "shell", f'$ export {name}="{secret}"\n$ make deploy\n'
    yield (
        "yaml",
        f"env:\n  {name.lower()}: {secret}\n  region: eu\n" if "\n" not in secret else f"{name}: |\n{secret}\n",
    )
    yield (
        "python",
        f"client = Client(\n    {name.lower()}='''{secret}''',\n)\n"
        if "\n" in secret
        else f'{name.lower()} = "{secret}"\n',
    )
    yield "sentence", f"The key ({name}: {secret}), as you said, is refused."
    yield (
        "url",
        f"GET https://api.example.com/v1/items?{name.lower()}={secret}&page=2 HTTP/1.1"
        if "\n" not in secret
        else secret,
    )
    yield "config", json.dumps({"service": {"url": "https://example.com", name.lower(): secret}}, indent=2)
    yield "message", json.dumps({"role": "user", "text": f"it says {name}={secret}\nwhy?"})
    output = json.dumps({"stdout": f"PATH=/usr/bin\n{name}={secret}\nHOME=/root\n", "exit": 0})
    yield "tool output", json.dumps({"type": "tool_result", "content": [{"type": "text", "text": output}]})
    arguments = json.dumps({"command": f"cat > .env <<'EOF'\n{name}=\"{secret}\"\nEOF"})
    yield "tool input", json.dumps({"payload": json.dumps({"type": "function_call", "arguments": arguments})})


def corpus(seed: int, each: int) -> Iterator[tuple[str, str, str, str]]:
    """Kind, form, secret and text: `each` secrets of every kind, in every form."""
    r = random.Random(seed)
    for name, make in KINDS.items():
        for _ in range(each):
            secret = make(r)
            for form, text in forms(name, WITHIN.get(name, "{}").format(secret)):
                yield name, form, secret, text


def shown_in(text: str, secret: str) -> bool:
    """Whether a telling part of the secret is there to be read, escaped or not."""
    bare = text.replace("\\", "")
    return any(secret[at : at + 12] in bare for at in range(len(secret) // 3, len(secret) - 12, 6)) or secret in bare
