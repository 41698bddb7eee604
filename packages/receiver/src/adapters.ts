import type { Answer, Deliveries, Headers } from './receiver.ts';

// The interfaces below describe only the parts of Node and the frameworks that are used here. So a program need not
// install the types of frameworks that it does not use.

/**
 * The parts of a request of `node:http` or Express that this package uses. A framework may have read the body already,
 * and stored it as `rawBody` or `body`.
 */
interface NodeRequest {
  method?: string | undefined;
  headers: Headers;
  complete: boolean;
  readableEnded: boolean;
  readableDidRead: boolean;
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  on(event: 'end' | 'error' | 'close', listener: () => void): unknown;
  pause(): unknown;
  socket?: object;
  body?: unknown;
  rawBody?: unknown;
}
interface NodeResponse {
  headersSent: boolean;
  writeHead(status: number, headers: Record<string, string>): { end(body: string): unknown };
}

interface FastifyLike {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    options: { parseAs: 'buffer'; bodyLimit: number },
    parse: (request: unknown, body: Uint8Array, done: (error: null, body: Uint8Array) => void) => void,
  ): void;
  route(options: {
    method: ['POST'];
    url: string;
    onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown>;
    handler(request: FastifyRequest & { body: unknown }, reply: FastifyReply): Promise<unknown>;
  }): unknown;
}
interface FastifyRequest {
  method: string;
  headers: Headers;
}
interface FastifyReply {
  code(status: number): FastifyReply;
  headers(headers: Record<string, string>): FastifyReply;
  send(body: string): FastifyReply;
}

/**
 * Returns a listener of `node:http`, which resolves when the answer is written, and never rejects. Writes no answer if
 * something else has answered meanwhile, such as code that limits the time of requests.
 */
export function nodeListener(deliveries: Deliveries) {
  return async (request: NodeRequest, response: NodeResponse): Promise<void> => {
    const refusal = deliveries.refuse(request.method, request.headers);
    if (refusal) return write(request, response, refusal);
    const body = await bodyOf(request, deliveries.maxBytes);
    // The bus has closed the connection, so nobody waits for an answer.
    if (body === 'cut') return;
    if (body === 'too_large') return write(request, response, deliveries.tooLarge());
    if (body === 'parsed') return write(request, response, deliveries.alreadyRead());
    write(request, response, await deliveries.receive(request.headers, body));
  };
}

function write(request: NodeRequest, response: NodeResponse, { status, headers, body }: Answer): void {
  if (response.headersSent) return;
  // If a part of the body is unread, the connection must close: Node would take that part for the next request. The
  // connection must also close after `server.close()`, which ends only idle connections. Otherwise the server would
  // wait until this connection has been idle for six seconds.
  const isRead = request.complete || request.readableEnded;
  // Node sets the property `server` of each connection that a server has accepted. Node's types lack this property.
  const { server } = (request.socket ?? {}) as { server?: { listening?: boolean } };
  const isClosing = server?.listening === false;
  const close: Record<string, string> = isRead && !isClosing ? {} : { connection: 'close' };
  response.writeHead(status, { ...headers, ...close }).end(body);
}

/**
 * Number of chunks of a body that are collected before they are joined into one. Each chunk takes 400 bytes besides its
 * content, so a body of many tiny chunks would fill the memory.
 */
const MAX_CHUNKS = 1000;

class Arrived {
  length = 0;
  readonly #joined: Uint8Array[] = [];
  #chunks: Uint8Array[] = [];

  add(chunk: Uint8Array): void {
    this.length += chunk.length;
    if (this.#chunks.push(chunk) < MAX_CHUNKS) return;
    this.#joined.push(Buffer.concat(this.#chunks));
    this.#chunks = [];
  }

  bytes(): Buffer {
    return Buffer.concat([...this.#joined, ...this.#chunks]);
  }
}

async function bodyOf(
  request: NodeRequest,
  maxBytes: number,
): Promise<Uint8Array | 'too_large' | 'parsed' | 'cut'> {
  for (const raw of [request.rawBody, request.body]) if (Buffer.isBuffer(raw)) return raw;
  // Other code, such as a parser, has read the body, and its bytes are lost. `request.body` does not show this: Express
  // 4 sets it to {} even if nothing has read the body.
  if (request.readableEnded || request.readableDidRead) return 'parsed';
  return new Promise((resolve) => {
    const arrived = new Arrived();
    request.on('data', (chunk) => {
      arrived.add(chunk);
      if (arrived.length <= maxBytes) return;
      request.pause();
      resolve('too_large');
    });
    request.on('end', () => resolve(arrived.bytes()));
    request.on('error', () => resolve('cut'));
    request.on('close', () => resolve('cut'));
  });
}

/**
 * Returns a function that takes a Request and resolves with a Response, for Hono, Deno, Bun and others. It never
 * rejects.
 */
export function fetchHandler(deliveries: Deliveries) {
  return async (request: Request): Promise<Response> => {
    const headers = Object.fromEntries(request.headers);
    const respond = ({ status, headers: fields, body }: Answer) =>
      new Response(status === 204 ? null : body, { status, headers: fields });
    const refusal = deliveries.refuse(request.method, headers);
    if (refusal) return respond(refusal);
    if (request.bodyUsed || request.body?.locked) return respond(deliveries.alreadyRead());
    const arrived = new Arrived();
    try {
      for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
        arrived.add(chunk);
        if (arrived.length > deliveries.maxBytes) return respond(deliveries.tooLarge());
      }
    } catch (error) {
      // Either the connection is closed, or other code that the body went through has failed.
      return respond(deliveries.cut(error));
    }
    return respond(await deliveries.receive(headers, arrived.bytes()));
  };
}

/**
 * Returns a Fastify plugin that answers POST requests at the `prefix` with which it is registered. Requests with other
 * methods go to the program's own routes at this path. If the program has none, Fastify answers 404.
 */
export function fastifyPlugin(deliveries: Deliveries) {
  return async (fastify: FastifyLike): Promise<void> => {
    const send = (reply: FastifyReply, { status, headers, body }: Answer) =>
      reply.code(status).headers(headers).send(body);
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: deliveries.maxBytes },
      (_, body, done) => done(null, body),
    );
    fastify.route({
      method: ['POST'],
      url: '/',
      async onRequest(request, reply) {
        const refusal = deliveries.refuse(request.method, request.headers);
        return refusal ? send(reply, refusal) : undefined;
      },
      async handler(request, reply) {
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
        return send(reply, await deliveries.receive(request.headers, body));
      },
    });
  };
}
