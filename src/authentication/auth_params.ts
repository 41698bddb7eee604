import { BusError } from '../errors.ts';

/** Maximum parameters of an Authorization header. Digest has 12 (RFC 7616), and a header may have unknown ones too. */
const MAX_PARAMETERS = 32;

// Matches `name=token` or `name="quoted"`, with the spaces and commas around it. Two neighbouring parts of the
// expression never match the same character. So there is only one way to match a text, and malformed headers take
// linear time.
const PARAMETER =
  /[\t ,]*([!#$%&'*+.^_`|~\w-]+)[\t ]*=[\t ]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([!#$%&'*+.^_`|~\w-]+))[\t ]*(?:,[\t ,]*|$)/y;

/**
 * Reads the parameters of an Authorization header (RFC 9110, section 11.2). Returns a map from lower-case names to
 * unescaped values. Throws bad_header for malformed text, a repeated name, or more than MAX_PARAMETERS.
 */
export function readParameters(text: string): Map<string, string> {
  const parameters = new Map<string, string>();
  let position = 0;
  while (position < text.length) {
    PARAMETER.lastIndex = position;
    const match = PARAMETER.exec(text);
    const name = match?.[1]?.toLowerCase();
    if (!match || name === undefined) throw unreadable(position);
    if (parameters.has(name))
      throw new BusError('bad_header', `Authorization has the parameter ${name} twice`);
    if (parameters.size === MAX_PARAMETERS)
      throw new BusError('bad_header', `Authorization has more than ${MAX_PARAMETERS} parameters`);
    parameters.set(name, match[2] === undefined ? (match[3] ?? '') : unescaped(match[2]));
    position = PARAMETER.lastIndex;
  }
  return parameters;
}

function unescaped(quoted: string): string {
  return quoted.includes('\\') ? quoted.replace(/\\(.)/g, '$1') : quoted;
}

function unreadable(position: number): BusError {
  const where = `after ${position} characters of its parameters`;
  return new BusError(
    'bad_header',
    `Authorization cannot be read ${where}; write name=value or name="value", and commas`,
  );
}
