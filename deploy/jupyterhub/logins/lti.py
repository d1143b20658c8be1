"""For /srv/jupyterhub/own.py: log-in from Moodle, Canvas or another platform by LTI 1.3.

Only for containers: nothing makes the Unix users. At the platform, register the tool with
https://hub.example.org/hub/lti13/oauth_login and https://hub.example.org/hub/lti13/oauth_callback.

.venv-hub/bin/python -m pip install jupyterhub-ltiauthenticator==1.6.3
"""

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.authenticator_class = "ltiauthenticator.lti13.auth.LTI13Authenticator"
c.LTI13Authenticator.issuer = "https://moodle.example.org"
c.LTI13Authenticator.authorize_url = "https://moodle.example.org/mod/lti/auth.php"
c.LTI13Authenticator.jwks_endpoint = "https://moodle.example.org/mod/lti/certs.php"
c.LTI13Authenticator.client_id = {"the client ID that the platform shows"}
c.LTI13Authenticator.username_key = "email"
c.LTI13Authenticator.allow_all = True  # who opens the course at the platform
