"""For /srv/jupyterhub/own.py: log-in by LDAP.

Only for containers: where each server runs as a Unix user, let this machine take its users from
LDAP (package sssd), and the hub's own log-in, by PAM, admits them.

.venv-hub/bin/python -m pip install jupyterhub-ldapauthenticator==2.0.2
"""

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.authenticator_class = "ldap"
c.LDAPAuthenticator.server_address = "ldap.example.org"
c.LDAPAuthenticator.tls_strategy = "before_bind"  # or "on_connect", port 636
c.LDAPAuthenticator.bind_dn_template = ["uid={username},ou=people,dc=example,dc=org"]
c.LDAPAuthenticator.allowed_groups = ["cn=course,ou=groups,dc=example,dc=org"]
