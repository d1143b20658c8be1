"""For /srv/jupyterhub/own.py: log-in by OAuth 2 or OpenID Connect, which makes the Unix users.

.venv-hub/bin/python -m pip install oauthenticator==17.4.0
"""

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.authenticator_class = "local-generic-oauth"
c.LocalGenericOAuthenticator.client_id = "course"
c.LocalGenericOAuthenticator.client_secret = "..."
c.LocalGenericOAuthenticator.oauth_callback_url = "https://hub.example.org/hub/oauth_callback"
c.LocalGenericOAuthenticator.authorize_url = "https://login.example.org/authorize"
c.LocalGenericOAuthenticator.token_url = "https://login.example.org/token"
c.LocalGenericOAuthenticator.userdata_url = "https://login.example.org/userinfo"
c.LocalGenericOAuthenticator.scope = ["openid", "profile", "groups"]
c.LocalGenericOAuthenticator.username_claim = "preferred_username"
c.LocalGenericOAuthenticator.auth_state_groups_key = "oauth_user.groups"
c.LocalGenericOAuthenticator.manage_groups = True
c.JupyterHub.load_groups = {}  # in place of this machine's: groups come with the log-in
c.LocalGenericOAuthenticator.allowed_groups = {"students", "teachers"}
c.LocalGenericOAuthenticator.create_system_users = True
