"""The live page and its HTTP API, in a process of their own. Needs the extra `web`; nothing else imports this."""
