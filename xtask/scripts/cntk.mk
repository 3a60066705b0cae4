# make -f cntk.mk DIR=FOLDER VERSION=VERSION STRINGS=OLD|NEW modules program
#
# Builds old CNTKs: see build-cntk.sh. One list of sources serves all versions, because folders are taken whole where that is possible.

.PHONY: modules program
MAKEFLAGS += --no-builtin-rules
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
S := $(DIR)/src/Source
OBJECTS := $(DIR)/objects
LIBS := $(DIR)/libs

# Betas have the names of the first readers.
ifneq ($(findstring beta,$(VERSION)),)
MATH := $(LIBS)/libcntkmath.so
PROFILER := $(LIBS)/libperfprofiler.so
COMPOSITE := $(LIBS)/CompositeDataReader.so
TEXT := $(LIBS)/CNTKTextFormatReader.so
BINARY := $(LIBS)/CNTKBinaryReader.so
HTK := $(LIBS)/HTKDeserializers.so
else
MATH := $(LIBS)/libCntk.Math-$(VERSION).so
PROFILER := $(LIBS)/libCntk.PerformanceProfiler-$(VERSION).so
COMPOSITE := $(LIBS)/Cntk.Composite-$(VERSION).so
TEXT := $(LIBS)/Cntk.Deserializers.TextFormat-$(VERSION).so
BINARY := $(LIBS)/Cntk.Deserializers.Binary-$(VERSION).so
HTK := $(LIBS)/Cntk.Deserializers.HTK-$(VERSION).so
endif

# What newer compilers do not include by themselves, and what they are stricter about.
TOLERANT := -w -fpermissive -fcheck-new $(addprefix -include ,limits numeric mutex functional cmath cstring)
FOLDERS := $(DIR)/generated $(addprefix $S/,Common/Include CNTKv2LibraryDll CNTKv2LibraryDll/API CNTKv2LibraryDll/proto Math CNTK ActionsLib \
  ComputationNetworkLib SGDLib SequenceTrainingLib CNTK/BrainScript Readers/ReaderLib PerformanceProfilerDll) \
  /usr/include/x86_64-linux-gnu/openblas-pthread $(addprefix /usr/lib/x86_64-linux-gnu/openmpi/include,/. /openmpi)
STANDARD = -std=c++11
CXX := g++ $(if $(filter OLD,$(STRINGS)),-D_GLIBCXX_USE_CXX11_ABI=0)
FLAGS := $(TOLERANT) -O1 -DNDEBUG -DHAS_MPI=1 -DCPUONLY -DNO_SYNC -DUSE_OPENBLAS -DCNTK_COMPONENT_VERSION=$(VERSION) -DCUDA_NO_HALF \
  -D__CUDA_NO_HALF_OPERATORS__ -D_POSIX_SOURCE -D_XOPEN_SOURCE=600 -D__USE_XOPEN2K -fopenmp -msse4.1 -mssse3 -fPIC $(addprefix -I,$(FOLDERS))
LINK = $(CXX) -rdynamic -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN'

sources = $(filter-out %/dllmain.cpp %/stdafx.cpp $(2),$(wildcard $(addprefix $S/,$(1))))
objects = $(patsubst $S/%.cpp,$(OBJECTS)/%.o,$(1))

PROFILER_SOURCES := $(call sources,PerformanceProfilerDll/*.cpp Common/File.cpp Common/fileutil.cpp Common/ExceptionWithCallStack.cpp Common/EnvironmentUtil.cpp)
MATH_SOURCES := $(call sources,Math/*.cpp,$(addprefix $S/Math/,BlockHandlerAVX.cpp CuDnn% GPU% cuda%)) $(call sources,Readers/ReaderLib/*.cpp) \
  $(call sources,$(addprefix Common/,$(addsuffix .cpp,Config Globals DataReader DataWriter ExceptionWithCallStack EnvironmentUtil Eval File TimerUtility fileutil Sequences)))

# From 2.1 on, the Math library takes from the library of the API what one header has.
CORE := $(if $(wildcard $S/Common/Include/V2Dependencies.h),$(LIBS)/libCntk.Core-$(VERSION).so)

modules: $(COMPOSITE) $(TEXT) $(BINARY) $(HTK) $(CORE)

$(CORE): $(MATH)
	@mkdir -p $(@D)
	@printf '#include "Basics.h"\n#include "V2Dependencies.h"\n' > $(DIR)/generated/core.cpp
	@$(LINK) $(STANDARD) $(FLAGS) -o $@ $(DIR)/generated/core.cpp $^

$(PROFILER): $(call objects,$(PROFILER_SOURCES))
$(MATH): $(call objects,$(MATH_SOURCES)) $(PROFILER)
$(COMPOSITE): $(call objects,$(call sources,Readers/CompositeDataReader/*.cpp)) $(MATH)
$(TEXT): $(call objects,$(call sources,Readers/CNTKTextFormatReader/*.cpp)) $(MATH)
$(BINARY): $(call objects,$(call sources,Readers/CNTKBinaryReader/*.cpp)) $(MATH)
$(HTK): $(call objects,$(call sources,Readers/HTKDeserializers/*.cpp Readers/HTKMLFReader/DataWriterLocal.cpp Readers/HTKMLFReader/HTKMLFWriter.cpp)) $(MATH)

$(LIBS)/%.so:
	@mkdir -p $(@D)
	@$(LINK) -o $@ $^ $(if $(filter $@,$(MATH)),-lopenblas -llapacke -lmpi_cxx -lmpi) -fopenmp -lm -lpthread -ldl

# Code of our own would not get away with this; it is as newer compilers want it.
$(OBJECTS)/ComputationNetworkLib/ComputationNetworkEvaluation.o: STANDARD = -std=c++11 -fno-access-control

$(OBJECTS)/%.o: $S/%.cpp
	@mkdir -p $(@D)
	@echo "$*"
	@$(CXX) $(STANDARD) $(FLAGS) -c $< -o $@

# ---- The BrainScript program of betas

PROGRAM := $(DIR)/bin/cntk
V2 := $(addprefix CNTKv2LibraryDll/,$(addsuffix .cpp,BackCompat Common Function PrimitiveFunction CompositeFunction NDArrayView NDMask Trainer Utils Value \
  Variable Learner Serialization DistributedCommunicator DistributedLearnerBase TrainingSession DataParallelDistributedLearner ProgressWriter \
  tensorboard/TensorBoardFileWriter tensorboard/TensorBoardUtils))
PROGRAM_SOURCES := $(call sources,SGDLib/*.cpp ComputationNetworkLib/*.cpp ActionsLib/*.cpp SequenceTrainingLib/*.cpp CNTK/*.cpp CNTK/BrainScript/*.cpp \
  $(V2) Common/BestGpu.cpp Common/MPIWrapper.cpp)
PROTOCOLS := $(addprefix $(OBJECTS)/CNTKv2LibraryDll/,proto/CNTK.pb.o tensorboard/tensorboard.pb.o)

program: $(PROGRAM)

$(PROGRAM): $(PROTOCOLS) $(call objects,$(PROGRAM_SOURCES)) $(MATH) $(PROFILER)
	@mkdir -p $(@D)
	@$(CXX) -rdynamic -o $@ $^ -Wl,-rpath,'$$ORIGIN/../libs' -lopenblas -llapacke -lprotobuf -lmpi -lmpi_cxx -fopenmp -lpthread -ldl
	@cp $S/CNTK/BrainScript/CNTKCoreLib/CNTK.core.bs $(@D)/cntk.core.bs

$(OBJECTS)/%.pb.o: $S/%.pb.cc
	@mkdir -p $(@D)
	@echo "$*"
	@$(CXX) -std=c++11 $(FLAGS) -c $< -o $@
