/**
 * Matches the scheme and the slashes at the start of a URL, and the credentials after them, as the URL standard defines
 * them.
 */
const CREDENTIALS = /^([^:]*:[/\\]*)([^/\\?#]*)@/;

/**
 * Removes the credentials from a URL, and returns both. `user` is the decoded user name. It is undefined if the URL has
 * no user name, or one that cannot be decoded. The password is dropped. Callbacks from a Ruby Routemaster may have
 * credentials, because its command `rtm` asks for them.
 */
export function splitCallback(callback: string): { user: string | undefined; callback: string } {
  const [head, start = '', credentials = ''] = CREDENTIALS.exec(callback) ?? [];
  if (head === undefined) return { user: undefined, callback };
  return { user: decoded(credentials.split(':', 1)[0]), callback: start + callback.slice(head.length) };
}

function decoded(user: string | undefined): string | undefined {
  try {
    return decodeURIComponent(user ?? '') || undefined;
  } catch {
    return undefined;
  }
}
