// Written by `npm run client` from the API of the bus. test/documents.test.ts fails if this file is out of date.

import { KnownProblem } from '../problem.ts';

/** 400: The body cannot be read. */
export class BadBodyError extends KnownProblem<'bad_body'> {}
/** 400: The callback is not acceptable. */
export class BadCallbackError extends KnownProblem<'bad_callback'> {}
/** 400: The client that the request is about is not acceptable. */
export class BadClientError extends KnownProblem<'bad_client'> {}
/** 400: The event is not acceptable. */
export class BadEventError extends KnownProblem<'bad_event'> {}
/** 400: A header is not acceptable. */
export class BadHeaderError extends KnownProblem<'bad_header'> {}
/** 400: The join is not acceptable. */
export class BadJoinError extends KnownProblem<'bad_join'> {}
/** 400: The query is not acceptable. */
export class BadQueryError extends KnownProblem<'bad_query'> {}
/** 400: The subscription is not acceptable. */
export class BadSubscriptionError extends KnownProblem<'bad_subscription'> {}
/** 400: The topic name is not acceptable. */
export class BadTopicError extends KnownProblem<'bad_topic'> {}
/** 400: The trigger is not acceptable. */
export class BadTriggerError extends KnownProblem<'bad_trigger'> {}
/** 401: Authentication is required. */
export class UnauthenticatedError extends KnownProblem<'unauthenticated'> {}
/** 403: This is not allowed. */
export class ForbiddenError extends KnownProblem<'forbidden'> {}
/** 403: Another client publishes to this topic. */
export class TopicClaimedError extends KnownProblem<'topic_claimed'> {}
/** 404: There is nothing here. */
export class NotFoundError extends KnownProblem<'not_found'> {}
/** 404: There is no such subscriber. */
export class SubscriberNotFoundError extends KnownProblem<'subscriber_not_found'> {}
/** 404: There is no such client. */
export class ClientNotFoundError extends KnownProblem<'client_not_found'> {}
/** 404: There is no such topic. */
export class TopicNotFoundError extends KnownProblem<'topic_not_found'> {}
/** 404: There is no such delayed event. */
export class DelayedEventNotFoundError extends KnownProblem<'delayed_event_not_found'> {}
/** 404: There is no such trigger. */
export class TriggerNotFoundError extends KnownProblem<'trigger_not_found'> {}
/** 404: There is no such delivery. */
export class DeliveryNotFoundError extends KnownProblem<'delivery_not_found'> {}
/** 404: There is no such dead letter. */
export class DeadLetterNotFoundError extends KnownProblem<'dead_letter_not_found'> {}
/** 404: There is no such job. */
export class JobNotFoundError extends KnownProblem<'job_not_found'> {}
/** 404: There is no such join. */
export class JoinNotFoundError extends KnownProblem<'join_not_found'> {}
/** 404: The subscriber is not subscribed to this topic. */
export class NotSubscribedError extends KnownProblem<'not_subscribed'> {}
/** 405: The method is not allowed here. */
export class MethodNotAllowedError extends KnownProblem<'method_not_allowed'> {}
/** 408: The request took too long to arrive. */
export class RequestTimeoutError extends KnownProblem<'request_timeout'> {}
/** 409: The batch is not waiting for its next delivery. */
export class DeliveryNotWaitingError extends KnownProblem<'delivery_not_waiting'> {}
/** 409: The job is not scheduled. */
export class JobNotScheduledError extends KnownProblem<'job_not_scheduled'> {}
/** 409: An operator paused this subscriber. */
export class PausedByOperatorError extends KnownProblem<'paused_by_operator'> {}
/** 409: An event with this id is already delayed. */
export class AlreadyDelayedError extends KnownProblem<'already_delayed'> {}
/** 409: A client with a secret has this token. */
export class ClientHasSecretError extends KnownProblem<'client_has_secret'> {}
/** 409: There is no room for another topic, subscriber, join, trigger or delayed event. */
export class LimitReachedError extends KnownProblem<'limit_reached'> {}
/** 413: The body is too large. */
export class BodyTooLargeError extends KnownProblem<'body_too_large'> {}
/** 415: The body is encoded in a way that is not supported. */
export class UnsupportedEncodingError extends KnownProblem<'unsupported_encoding'> {}
/** 422: The idempotency key was used for another request. */
export class IdempotencyKeyReusedError extends KnownProblem<'idempotency_key_reused'> {}
/** 429: Too many requests had wrong credentials. */
export class TooManyFailuresError extends KnownProblem<'too_many_failures'> {}
/** 429: This client uses too many idempotency keys. */
export class TooManyKeysError extends KnownProblem<'too_many_keys'> {}
/** 429: This client uses too many Digest nonces. */
export class TooManyNoncesError extends KnownProblem<'too_many_nonces'> {}
/** 429: There are too many requests. */
export class RateLimitedError extends KnownProblem<'rate_limited'> {}
/** 431: The headers are too large. */
export class HeadersTooLargeError extends KnownProblem<'headers_too_large'> {}
/** 500: The bus failed to do this. */
export class InternalError extends KnownProblem<'internal'> {}
/** 501: The transfer coding is not understood. */
export class UnsupportedTransferCodingError extends KnownProblem<'unsupported_transfer_coding'> {}
/** 503: The bus has too much to do. */
export class OverloadedError extends KnownProblem<'overloaded'> {}
/** 503: The storage is full. */
export class StorageFullError extends KnownProblem<'storage_full'> {}
/** 503: The storage cannot be reached. */
export class StorageUnavailableError extends KnownProblem<'storage_unavailable'> {}

/** The class of each error, by the code of its problem document. */
export const PROBLEMS = {
  bad_body: BadBodyError,
  bad_callback: BadCallbackError,
  bad_client: BadClientError,
  bad_event: BadEventError,
  bad_header: BadHeaderError,
  bad_join: BadJoinError,
  bad_query: BadQueryError,
  bad_subscription: BadSubscriptionError,
  bad_topic: BadTopicError,
  bad_trigger: BadTriggerError,
  unauthenticated: UnauthenticatedError,
  forbidden: ForbiddenError,
  topic_claimed: TopicClaimedError,
  not_found: NotFoundError,
  subscriber_not_found: SubscriberNotFoundError,
  client_not_found: ClientNotFoundError,
  topic_not_found: TopicNotFoundError,
  delayed_event_not_found: DelayedEventNotFoundError,
  trigger_not_found: TriggerNotFoundError,
  delivery_not_found: DeliveryNotFoundError,
  dead_letter_not_found: DeadLetterNotFoundError,
  job_not_found: JobNotFoundError,
  join_not_found: JoinNotFoundError,
  not_subscribed: NotSubscribedError,
  method_not_allowed: MethodNotAllowedError,
  request_timeout: RequestTimeoutError,
  delivery_not_waiting: DeliveryNotWaitingError,
  job_not_scheduled: JobNotScheduledError,
  paused_by_operator: PausedByOperatorError,
  already_delayed: AlreadyDelayedError,
  client_has_secret: ClientHasSecretError,
  limit_reached: LimitReachedError,
  body_too_large: BodyTooLargeError,
  unsupported_encoding: UnsupportedEncodingError,
  idempotency_key_reused: IdempotencyKeyReusedError,
  too_many_failures: TooManyFailuresError,
  too_many_keys: TooManyKeysError,
  too_many_nonces: TooManyNoncesError,
  rate_limited: RateLimitedError,
  headers_too_large: HeadersTooLargeError,
  internal: InternalError,
  unsupported_transfer_coding: UnsupportedTransferCodingError,
  overloaded: OverloadedError,
  storage_full: StorageFullError,
  storage_unavailable: StorageUnavailableError,
} as const;
