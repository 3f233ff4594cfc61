// Original file: proto/provision.proto

import type { PropertySchema as _tool_PropertySchema, PropertySchema__Output as _tool_PropertySchema__Output } from '../tool/PropertySchema.ts';

export interface ProvisionReply {
  /**
   * What a tool names as its configurationURI and secretsURI to use what was stored.
   */
  'configurationUri'?: (string);
  'secretUri'?: (string);
  'properties'?: ({[key: string]: _tool_PropertySchema});
}

export interface ProvisionReply__Output {
  /**
   * What a tool names as its configurationURI and secretsURI to use what was stored.
   */
  'configurationUri': (string);
  'secretUri': (string);
  'properties': ({[key: string]: _tool_PropertySchema__Output});
}
