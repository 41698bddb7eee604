import type { IncomingMessage, ServerResponse } from 'node:http';

/** Asks the sender of a request for its body, for which it waits (`Expect: 100-continue`). */
const CONTINUE = Symbol('continue');

type Expecting = IncomingMessage & { [CONTINUE]?: () => void };

/**
 * Marks a request whose sender waits to be asked for the body. If it is answered before, the sender may send the body or not, and
 * what follows could be a body or a request: so that answer ends the connection.
 */
export function withContinue(request: IncomingMessage, response: ServerResponse): IncomingMessage {
  const keepAlive = response.shouldKeepAlive;
  response.shouldKeepAlive = false;
  (request as Expecting)[CONTINUE] = () => {
    response.shouldKeepAlive = keepAlive;
    response.writeContinue();
  };
  return request;
}

/** To be called before a body is read. */
export function askForBody(request: IncomingMessage): void {
  const expecting = request as Expecting;
  expecting[CONTINUE]?.();
  expecting[CONTINUE] = () => {};
}
