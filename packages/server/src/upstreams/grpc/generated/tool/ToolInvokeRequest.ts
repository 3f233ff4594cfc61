// Original file: proto/tool.proto


export interface ToolInvokeRequest {
  /**
   * The tool's uri, as it is registered.
   */
  'uri'?: (string);
  /**
   * The argument service_body, for tools whose schema has it.
   */
  'body'?: (string);
  /**
   * Strings as they were sent, other values as JSON.
   */
  'arguments'?: ({[key: string]: string});
  'configurationURI'?: (string);
  'secretsURI'?: (string);
  'headers'?: ({[key: string]: string});
}

export interface ToolInvokeRequest__Output {
  /**
   * The tool's uri, as it is registered.
   */
  'uri': (string);
  /**
   * The argument service_body, for tools whose schema has it.
   */
  'body': (string);
  /**
   * Strings as they were sent, other values as JSON.
   */
  'arguments': ({[key: string]: string});
  'configurationURI': (string);
  'secretsURI': (string);
  'headers': ({[key: string]: string});
}
