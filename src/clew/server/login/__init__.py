"""Authentication of requests: API keys, browsers, OpenID providers."""
