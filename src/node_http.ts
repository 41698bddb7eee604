/**
 * Node's http module. An `import` of `node:http` would read all exports of the module, and reading `WebSocket` loads
 * Node's `fetch`. Loading `fetch`, which the bus does not use, takes a tenth of the CPU time of a web process's start.
 */
export const http = process.getBuiltinModule('node:http');
