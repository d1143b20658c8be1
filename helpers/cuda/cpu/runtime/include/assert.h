// assert() is there without an #include, and names the thread.
#pragma once
