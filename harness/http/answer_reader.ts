/** The part of an answer that the fuzz and attacks look at. */
export interface Answer {
  status: number;
  text: string;
  /** True if the server closes the connection after this answer. */
  closes: boolean;
}

/** Splits the bytes of a connection into answers. Answers to HEAD have no body. */
export class AnswerReader {
  #text = '';

  /** Returns the answers that this text completes. */
  read(chunk: string, isHead = false): Answer[] {
    this.#text += chunk;
    const answers: Answer[] = [];
    for (let next = this.#next(isHead); next; next = this.#next(isHead))
      if (next.status !== 100) answers.push(next);
    return answers;
  }

  #next(isHead: boolean): Answer | undefined {
    const headEnd = this.#text.indexOf('\r\n\r\n');
    if (headEnd < 0) return undefined;
    const head = this.#text.slice(0, headEnd + 2);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0);
    const bodyless = isHead || status < 200 || status === 204 || status === 304;
    const end = bodyless ? headEnd + 4 : this.#bodyEnd(head, headEnd + 4);
    if (end === undefined || end > this.#text.length) return undefined;
    const text = this.#text.slice(0, end);
    this.#text = this.#text.slice(end);
    return { status, text, closes: /\r\nconnection: close\r\n/i.test(head) };
  }

  #bodyEnd(head: string, from: number): number | undefined {
    const length = /\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1];
    if (length !== undefined) return from + Number(length);
    if (!/\r\ntransfer-encoding: *chunked\r\n/i.test(head)) return from;
    const last = this.#text.indexOf('\r\n0\r\n\r\n', from - 2);
    return last < 0 ? undefined : last + 7;
  }
}
