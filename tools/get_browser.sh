#!/bin/sh
# A headless browser for the browser tests, from the system's own packages. Says what to do where it cannot.
set -eu
have() { command -v "$1" >/dev/null 2>&1; }
browser() { have chromium || have chromium-browser || have google-chrome; }
if browser && have chromedriver; then exit 0; fi
if have apt-get && [ "$(id -u)" = 0 ]; then
  apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null
elif have apt-get && have sudo && sudo -n true 2>/dev/null; then
  sudo apt-get update -qq && sudo apt-get install -y -qq chromium chromium-driver >/dev/null
fi
if browser && have chromedriver; then exit 0; fi
echo "No chromium with chromedriver found, and none could be installed. Install both and run this again." >&2
exit 2
