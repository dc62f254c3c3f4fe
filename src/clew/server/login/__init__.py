"""Who asks: API keys, browsers, OpenID providers."""
