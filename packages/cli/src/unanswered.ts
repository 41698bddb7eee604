/** Says why `fetch` got no answer. `error` is what it threw, which by itself only says that it failed. */
export function causeOf(error: unknown): { code: string; message: string } {
  const cause = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  // An error about several addresses of one name has a code but no message.
  return { code: cause.code ?? cause.name, message: cause.message || String(cause.code) };
}
