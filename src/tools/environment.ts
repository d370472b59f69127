/**
 * Which environment variables a command gets: those of a list, and nothing else.
 *
 * A command is written by a model. What it can see it can send away, so secrets of this process (API keys, the home
 * key) do not reach it unless the user names them.
 */

export type Environment = Readonly<Record<string, string | undefined>>;

/** What programs need to work as the user expects. `*` at the end stands for any rest. */
const PASSED: readonly string[] = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LANGUAGE",
  "LC_*",
  "TZ",
  "TERM",
  "COLORTERM",
  "NO_COLOR",
  "TMPDIR",
  "XDG_CONFIG_HOME",
  "XDG_CACHE_HOME",
  "XDG_DATA_HOME",
  "XDG_RUNTIME_DIR",
  "CI",
  "EDITOR",
  "PAGER",
  "http_proxy",
  "https_proxy",
  "no_proxy",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
];

/** Never by a star, only by their full name. */
const SECRET = /^HOLDFAST_|(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|PRIVATE_KEY)(?:_|$)/i;

/** `named` are the names that the user's config adds; they may end with `*`. */
export function commandEnvironment(env: Environment, named: readonly string[]): Record<string, string> {
  const allowed = [...PASSED, ...named];
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && allowed.some((rule) => lets(rule, name))) passed[name] = value;
  }
  return passed;
}

function lets(rule: string, name: string): boolean {
  if (!rule.endsWith("*")) return rule === name;
  return name.startsWith(rule.slice(0, -1)) && !SECRET.test(name);
}
