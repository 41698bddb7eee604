/** Any error of this package. `code` tells them apart: that of the bus's problem document, or one of ours. */
export class RoutemasterError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A problem document (RFC 9457) of the bus, or what stands for one where the answer has none. */
export interface Problem {
  code: string;
  status: number;
  title: string;
  /** What to change. */
  detail: string;
  /** Further members, such as `index` and `field` of an event that was refused. */
  members: Record<string, unknown>;
}

/** The bus answered with an error. Each code that this release knows has a class of its own. */
export class ProblemError extends RoutemasterError implements Problem {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly members: Record<string, unknown>;

  constructor({ code, status, title, detail, members }: Problem) {
    super(code, detail);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.members = members;
  }
}
