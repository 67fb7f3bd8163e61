"""Which method suits a user's own data: `poise advise`."""
