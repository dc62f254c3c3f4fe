"""Addresses of remotes and names of projects: one repository is one address however its URL is written."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.repository import address_of, path_in, project_names, readable_name, remote_in

FORMS = [
    "https://{host}/{path}", "https://{host}/{path}.git", "https://{host}/{path}.git/", "http://{host}/{path}",
    "https://ada@{host}/{path}", "https://ada:s3cret@{host}:443/{path}.git", "https://{host}//{path}?x=1#y",
    "ssh://git@{host}/{path}.git", "ssh://git@{host}:22/{path}", "git@{host}:{path}.git", "git@{host}:/{path}",
    "{host}:{path}.git", "ada@{host}:{path}", "git://{host}/{path}.git", "git+ssh://git@{host}/{path}",
    "ssh+git://git@{host}/{path}.git", "HTTPS://{host}/{path}",
]  # fmt: skip
HOSTS = st.sampled_from(["github.com", "git.example.org", "gitlab.firma.de", "[2001:db8::1]", "10.0.0.7"])
WORDS = st.text("abcdefgh0123456789-_.文档библиотека", min_size=1, max_size=8).filter(
    lambda word: not word.startswith(".") and not word.endswith(".git")
)
PATHS = st.lists(WORDS, min_size=2, max_size=4)


@given(HOSTS, PATHS, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_every_form_of_a_url_gives_the_same_address(host: str, path: list[str], first: str, second: str) -> None:
    written = [address_of(form.format(host=host, path="/".join(path))) for form in (first, second)]
    assert written[0] == written[1] != ""


@given(HOSTS, HOSTS, PATHS, PATHS, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_different_repositories_have_different_addresses(
    host: str, other: str, path: list[str], path_of_other: list[str], form: str, form_of_other: str
) -> None:
    one, two = (host, path), (other, path_of_other)
    left = address_of(form.format(host=host, path="/".join(path)))
    right = address_of(form_of_other.format(host=other, path="/".join(path_of_other)))
    assert (left == right) == (one == two)


def test_the_case_of_the_host_does_not_matter() -> None:
    assert address_of("https://GitHub.com/Acme/Shop") == address_of("git@github.COM:Acme/Shop.git")


@pytest.mark.parametrize(
    "url",
    ["https://ada:s3cret@github.com/acme/shop", "https://s3cret@github.com/acme/shop",
     "https://github.com/acme/shop?private_token=s3cret", "ssh://s3cret:s3cret@github.com/acme/shop#s3cret"],
)  # fmt: skip
def test_no_secret_of_a_url_is_in_the_address(url: str) -> None:
    assert address_of(url) == "github.com/acme/shop"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://localhost:3000/a/b", "https://localhost:4000/a/b"),
        ("ada@host:shop.git", "bob@host:shop.git"),
        ("ssh://ada@host/~/shop", "ssh://bob@host/~/shop"),
        ("https://host/a\udce9/b", "https://host/a\udce8/b"),
    ],
)
def test_addresses_that_only_look_alike_stay_different(one: str, other: str) -> None:
    assert "" != address_of(one) != address_of(other)


@pytest.mark.parametrize(
    "url",
    ["/srv/git/shop.git", "../shop", "file:///srv/shop", "C:/work/shop", "", "ext::sh -c x", "x" * 600, "https://"],
)
def test_what_names_no_host_has_no_address(url: str) -> None:
    assert address_of(url) == ""


def test_a_path_of_this_machine_is_found_in_a_url() -> None:
    urls = ("/srv/shop.git", "../shop", "file:///srv/a%20b", "git@host:a/b", "https://h/a")
    assert [path_in(url) for url in urls] == ["/srv/shop.git", "../shop", "/srv/a b", "", ""]


@given(st.text())
def test_any_text_is_a_configuration_and_a_url(text: str) -> None:
    address_of(remote_in(text))
    address_of(text)
    path_in(text)


@pytest.mark.parametrize(
    ("configuration", "url"),
    [
        ('[remote "origin"]\n\turl = git@host:a/b\n', "git@host:a/b"),
        ('[Remote "origin"] url=git@host:a/b ; a comment\n', "git@host:a/b"),
        ('[remote.origin]\nurl = "https://host/a b" # c\n', "https://host/a b"),
        ('[remote "fork"]\nurl = x\n[remote "origin"]\nurl = y\nurl = z\n', "y"),
        ('[remote "upstream"]\nurl = x\n', "x"),
        ('[remote "a"]\nurl = x\n[remote "b"]\nurl = y\n', ""),
        ('[remote "origin"]\nurl = https://ho\\\nst/a\n', "https://host/a"),
        ('[branch "origin"]\nurl = x\n[url "git@host:"]\ninsteadOf = y\n', ""),
        ("url = x\n", ""),
        ('[include]\npath = /etc/passwd\n[remote "origin"]\nfetch = +refs\n', ""),
    ],
)
def test_the_remote_is_read_from_a_configuration(configuration: str, url: str) -> None:
    assert remote_in(configuration) == url


def test_names_keep_their_script_and_go_on_with_the_folder_above_and_numbers() -> None:
    assert list(islice(project_names("/home/ada/文档"), 4)) == ["文档", "ada-文档", "ada-文档-2", "ada-文档-3"]
    assert next(project_names("github.com/acme/shop")) == "shop"
    assert list(islice(project_names("/"), 2)) == ["root", "root-2"]


@given(st.text())
def test_a_name_is_safe_in_a_terminal_and_a_command(text: str) -> None:
    name = readable_name(text)
    assert not name.startswith("-")
    assert name == name.strip()
    assert "/" not in name
    assert len(name) <= 100
    assert not any(ord(character) < 32 or character in "\u202e\u2066\u200b\x7f\x9b" for character in name)
    name.encode()
